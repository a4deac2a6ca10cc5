//! The API server: reached, its version, who we are to it, TLS, and its clock.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::core::Request;
use kube::core::params::GetParams;
use kube::{Api, Client};

use super::{Answer, ask};
use crate::executor::Cluster;
use crate::executor::cluster::Connection;
use crate::executor::text::shortened;
use crate::finding::Finding;

/// The oldest minor version of Kubernetes 1 that jobs are made for (README, "On a cluster").
const OLDEST_MINOR: u32 = 29;

/// Tokens and certificates are judged by the clock; Kubernetes' own components bear a few seconds.
const MOST_SKEW: Duration = Duration::from_secs(30);

/// A server that answers.
pub(super) struct Server {
    pub(super) client: Client,
    /// As the server calls it.
    git_version: String,
    /// Of version 1; `None` when the version is not of that form.
    pub(super) minor: Option<u32>,
}

/// Connects, and says what can be said of the connection. `who` uses it: `jobs` or `reads`.
pub(super) async fn reach(
    who: &'static str,
    cluster: &Cluster,
    findings: &mut Vec<Finding>,
) -> Option<Server> {
    if let Ok(connection) = cluster.connection().await {
        findings.extend(tls(who, &connection));
    }
    let client = match cluster.client().await {
        Ok(client) => client,
        Err(error) => {
            let remedy = "correct what it names, or name another kubeconfig; everything that needs it fails until then";
            findings.push(Finding::failed("cluster.reach", error.to_string(), remedy).about(who));
            return None;
        }
    };
    let started = Instant::now();
    let version = match ask("tell its version", || client.apiserver_version()).await {
        Answer::Given(version) => version,
        answer => {
            findings.push(unreachable(who, cluster, answer));
            return None;
        }
    };
    let took = started.elapsed();
    let minor = minor_of(&version.major, &version.minor);
    let git_version = shortened(&version.git_version);
    let said =
        format!("{} leads to Kubernetes {git_version}, in {} ms", cluster.describe(), took.as_millis());
    findings.push(Finding::ok("cluster.reach", said).about(who));
    findings.extend(identity(who, &client).await);
    Some(Server { client, git_version, minor })
}

fn unreachable<T>(who: &'static str, cluster: &Cluster, answer: Answer<T>) -> Finding {
    let (why, remedy) = match answer {
        Answer::Failed(why) => (
            why,
            "look at the `server` of the kubeconfig, at the network between, and at HTTPS_PROXY and NO_PROXY",
        ),
        Answer::Forbidden => (
            "the API server does not tell its version to this identity".to_owned(),
            "bind the identity to the cluster role system:public-info-viewer, which every identity has by default",
        ),
        Answer::NotFound(_) | Answer::Given(_) => (
            "what answers is not a Kubernetes API server".to_owned(),
            "look at the `server` of the kubeconfig, path included",
        ),
    };
    Finding::failed("cluster.reach", format!("{}: {why}", cluster.describe()), remedy).about(who)
}

fn tls(who: &'static str, connection: &Connection) -> Option<Finding> {
    let said = |words: &str| format!("{}: {words}", connection.server);
    let finding = if connection.encrypted && connection.verified {
        Finding::ok("cluster.tls", said("encrypted, and its certificate is checked"))
    } else if connection.encrypted {
        Finding::warning(
            "cluster.tls",
            said("insecure-skip-tls-verify is set, so anybody on the way could take the credentials"),
            "give the kubeconfig's cluster its certificate-authority instead",
        )
    } else if connection.loopback {
        Finding::ok("cluster.tls", said("not encrypted, and does not leave this machine"))
    } else {
        Finding::warning(
            "cluster.tls",
            said("not encrypted, so anybody on the way can read and change everything"),
            "use the API server's https address",
        )
    };
    Some(finding.about(who))
}

/// Whether the server is new enough for jobs, and tells the same time.
pub(super) async fn suits_jobs(server: &Server, findings: &mut Vec<Finding>) {
    findings.push(of_version(&server.git_version, server.minor));
    findings.push(clock(&server.client).await);
}

fn of_version(git_version: &str, minor: Option<u32>) -> Finding {
    match minor {
        Some(minor) if minor >= OLDEST_MINOR => {
            Finding::ok("cluster.version", format!("1.{minor} is at least 1.{OLDEST_MINOR}"))
        }
        Some(minor) => Finding::failed(
            "cluster.version",
            format!("1.{minor} is older than 1.{OLDEST_MINOR}"),
            format!("upgrade the cluster to 1.{OLDEST_MINOR} or newer"),
        ),
        None => Finding::warning(
            "cluster.version",
            format!("`{git_version}` is no version of Kubernetes 1"),
            format!("make sure that it is compatible with 1.{OLDEST_MINOR} or newer"),
        ),
    }
}

/// `minor` may end in a plus sign or more, as hosted clusters have it ("27+").
pub(super) fn minor_of(major: &str, minor: &str) -> Option<u32> {
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    (major == "1").then(|| digits.parse().ok()).flatten()
}

/// The name that the server knows us by. Before 1.28, and where it is not to be told, nothing is said.
async fn identity(who: &'static str, client: &Client) -> Option<Finding> {
    const ALL_POWERFUL: &str = "system:masters";
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let (params, review) = (PostParams::default(), SelfSubjectReview::default());
    let Answer::Given(review) = ask("tell who is asking", || api.create(&params, &review)).await else {
        return None;
    };
    let user = review.status?.user_info?;
    let name = shortened(user.username.as_deref().unwrap_or_default());
    let finding = if name == "system:anonymous" {
        Finding::failed(
            "cluster.identity",
            "the API server takes us for `system:anonymous`: no credentials were sent",
            "give the kubeconfig's user a token, a client certificate or an exec plugin",
        )
    } else if user.groups.iter().flatten().any(|group| group == ALL_POWERFUL) {
        Finding::warning(
            "cluster.identity",
            format!("`{name}` is in {ALL_POWERFUL}, to which no rule applies"),
            "use an identity of the gateway's own; deploy/kubernetes.yaml has one",
        )
    } else {
        Finding::ok("cluster.identity", format!("`{name}`"))
    };
    Some(finding.about(who))
}

/// Compares the clocks by the `Date` of an answer, which has whole seconds (RFC 9110, section 6.6.1).
async fn clock(client: &Client) -> Finding {
    let asked = Timestamp::now();
    let date = async {
        let request = Request::new("").get("version", &GetParams::default()).ok()?;
        let answer = tokio::time::timeout(super::PATIENCE, client.send(request.map(Into::into))).await;
        let answer = answer.ok()?.ok()?;
        let date = answer.headers().get("date")?.to_str().ok()?;
        jiff::fmt::rfc2822::parse(date).ok().map(|date| date.timestamp())
    };
    let Some(date) = date.await else {
        return Finding::skipped("cluster.clock", "the API server does not tell its time");
    };
    let now = Timestamp::now();
    // The server took its time between the question and the answer, and cut it to a whole second.
    let ahead = asked.duration_since(date).as_secs_f64() - 1.0;
    let behind = date.duration_since(now).as_secs_f64();
    let skew = ahead.max(behind).max(0.0);
    if skew <= MOST_SKEW.as_secs_f64() {
        Finding::ok("cluster.clock", "this machine and the API server agree on the time")
    } else {
        let side = if ahead > behind { "ahead of" } else { "behind" };
        Finding::warning(
            "cluster.clock",
            format!("this machine's clock is {skew:.0} s {side} the API server's"),
            "synchronise both by NTP: tokens and certificates are judged by the clock, and records carry it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{minor_of, of_version, tls};
    use crate::executor::cluster::Connection;
    use crate::finding::Verdict;

    #[test]
    fn versions_are_read_as_clusters_write_them() {
        let table = [
            (("1", "33"), Some(33)),
            (("1", "27+"), Some(27)),
            (("1", "30.2"), Some(30)),
            (("1", ""), None),
            (("1", "x"), None),
            (("2", "0"), None),
            (("", "33"), None),
        ];
        for ((major, minor), expected) in table {
            assert_eq!(minor_of(major, minor), expected, "{major}.{minor}");
        }
        assert_eq!(of_version("v1.28.9", Some(28)).verdict, Verdict::Failed);
        assert_eq!(of_version("v1.29.0", Some(29)).verdict, Verdict::Ok);
        assert_eq!(of_version("devel", None).verdict, Verdict::Warning);
    }

    #[test]
    fn a_connection_that_others_can_read_is_a_warning() {
        let table = [
            ((true, true, false), Verdict::Ok),
            ((true, false, false), Verdict::Warning),
            ((true, false, true), Verdict::Warning),
            ((false, true, false), Verdict::Warning),
            ((false, true, true), Verdict::Ok),
        ];
        for ((encrypted, verified, loopback), expected) in table {
            let connection = Connection { server: "https://a:1".to_owned(), encrypted, verified, loopback };
            assert_eq!(tls("jobs", &connection).unwrap().verdict, expected, "{connection:?}");
        }
    }
}
