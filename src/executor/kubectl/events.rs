//! A list of events as a table, newest first.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::Deserialize;

use crate::executor::kubectl::table::{age, cell, table};

/// `kubectl get events --output=json`, the parts that the table shows.
#[derive(Debug, Deserialize)]
pub(super) struct EventList {
    kind: String,
    items: Vec<Event>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Event {
    metadata: Metadata,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
    count: Option<u64>,
    series: Option<Series>,
    involved_object: Object,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    count: u64,
    last_observed_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object {
    kind: String,
    name: String,
}

impl EventList {
    /// Whether it is one.
    pub(super) fn is_list(&self) -> bool {
        self.kind == "List" || self.kind == "EventList"
    }

    /// The table. With `namespaces`, the namespace of each.
    pub(super) fn render(mut self, namespaces: bool, now: Timestamp) -> String {
        if self.items.is_empty() {
            return "No events found. Events are kept for an hour or so.\n".to_owned();
        }
        // Of the same second the later ones have the later names, in which order they come.
        self.items.reverse();
        self.items.sort_by_key(|event| Reverse(event.seen()));
        let mut heading = vec!["LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"];
        if namespaces {
            heading.insert(0, "NAMESPACE");
        }
        let rows: Vec<Vec<String>> = self.items.iter().map(|event| event.row(namespaces, now)).collect();
        table(&heading, &rows)
    }
}

impl Event {
    fn row(&self, namespaces: bool, now: Timestamp) -> Vec<String> {
        let object = &self.involved_object;
        let count = self.series.as_ref().map(|series| series.count).or(self.count).unwrap_or(1);
        let mut row = Vec::new();
        if namespaces {
            row.push(cell(&self.metadata.namespace));
        }
        row.extend([
            age(self.seen(), now),
            cell(&self.kind),
            cell(&self.reason),
            cell(&format!("{}/{}", object.kind.to_lowercase(), object.name)),
            count.to_string(),
            cell(&self.message),
        ]);
        row
    }

    /// The last time that it was seen. Writers of the older and the newer API fill different fields.
    fn seen(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        series
            .or(self.last_timestamp)
            .or(self.event_time)
            .or(self.first_timestamp)
            .or(self.metadata.creation_timestamp)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::EventList;

    #[test]
    fn newest_first_with_the_newer_apis_fields() {
        let list = json!({ "kind": "List", "apiVersion": "v1", "items": [
            { "metadata": { "namespace": "dev" }, "type": "Normal", "reason": "Pulled", "message": "pulled\nwell",
              "involvedObject": { "kind": "Pod", "name": "web-1" }, "firstTimestamp": "2026-01-01T00:00:00Z",
              "lastTimestamp": "2026-01-01T00:10:00Z", "count": 3, "eventTime": null },
            { "metadata": { "namespace": "dev" }, "type": "Warning", "reason": "BackOff", "message": "again",
              "involvedObject": { "kind": "Pod", "name": "web-2" }, "firstTimestamp": null, "lastTimestamp": null,
              "eventTime": "2026-01-01T00:00:00.123456Z",
              "series": { "count": 7, "lastObservedTime": "2026-01-01T00:19:30.000000Z" } },
        ] });
        let list: EventList = serde_json::from_value(list).unwrap();
        assert!(list.is_list());
        let text = list.render(true, "2026-01-01T00:20:00Z".parse().unwrap());
        assert_eq!(
            text,
            "NAMESPACE   LAST SEEN   TYPE      REASON    OBJECT      COUNT   MESSAGE\n\
             dev         30s         Warning   BackOff   pod/web-2   7       again\n\
             dev         10m         Normal    Pulled    pod/web-1   3       pulled well\n"
        );
        let empty: EventList = serde_json::from_value(json!({ "kind": "List", "items": [] })).unwrap();
        assert!(empty.render(false, jiff::Timestamp::now()).starts_with("No events found"));
    }
}
