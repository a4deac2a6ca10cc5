//! Fields that pods can be selected by, with their values.

use super::*;

fn canonical(text: &str) -> String {
    text.parse::<FieldSelector>().unwrap_or_else(|error| panic!("{text:?} {error}")).to_string()
}

#[test]
fn a_selector_is_written_in_one_form() {
    // The examples of "Field Selectors" in Kubernetes' documentation that are about pods, then the other fields.
    let cases = [
        ("status.phase=Running", "status.phase=Running"),
        (
            "status.phase!=Running,spec.restartPolicy=Always",
            "status.phase!=Running,spec.restartPolicy=Always",
        ),
        ("metadata.name=my-service", "metadata.name=my-service"),
        ("status.phase==Pending", "status.phase=Pending"),
        (" status.phase = Failed , spec.nodeName != node-1 ", "status.phase=Failed,spec.nodeName!=node-1"),
        ("spec.nodeName=", "spec.nodeName="),
        ("spec.nodeName!=", "spec.nodeName!="),
        ("spec.nodeName=ip-10-0-0-1.ec2.internal", "spec.nodeName=ip-10-0-0-1.ec2.internal"),
        ("spec.serviceAccountName=builder", "spec.serviceAccountName=builder"),
        ("status.podIP=10.0.0.1", "status.podIP=10.0.0.1"),
        ("status.podIP=FD00:0:0:0::1", "status.podIP=fd00::1"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), expected, "{text:?}");
    }
}

#[test]
fn what_is_no_selector_is_refused() {
    let long_name = format!("metadata.name={}", "a".repeat(254));
    let huge = "spec.nodeName=,".repeat(80);
    let cases = [
        "",
        " ",
        ",",
        "=",
        "==",
        "!=",
        "status.phase",
        "status.phase=",
        "status.phase=running",
        "status.phase=CrashLoopBackOff",
        "status.phase===Running",
        "status.phase=!Running",
        "status.phase!Running",
        "status.phase=Running,",
        ",status.phase=Running",
        "status.phase=Running,,spec.nodeName=a",
        "status.phase=Running status.phase=Failed",
        "status.phase>Running",
        "status.phase in (Running)",
        "Status.phase=Running",
        "status.Phase=Running",
        "STATUS.PHASE=Running",
        "phase=Running",
        "metadata.name=",
        "metadata.name=p1&limit=1",
        "metadata.name=P1",
        "metadata.name=a\\,b",
        "metadata.name=a b",
        "metadata.name=p1\n",
        "metadata.name=$(id)",
        "metadata.name=--kuberc=x",
        "metadata.name=-A",
        "metadata.namespace=kube-system",
        "spec.nodeName=../x",
        "spec.nodeName=a/b",
        "spec.nodeName=a=b",
        "spec.restartPolicy=Sometimes",
        "spec.serviceAccountName=",
        "spec.hostNetwork=true",
        "type=Warning",
        "involvedObject.kind=Secret",
        "status.podIP=",
        "status.podIP=10.0.0",
        "status.podIP=010.0.0.1",
        "status.podIP=10.0.0.1/8",
        "status.podIP=fe80::1%eth0",
        "status.podIP=localhost",
        "x--kuberc=p",
        "status.phase=Running\0",
        "status.phase=\u{202e}Running",
        "-A",
        "--server=http://127.0.0.1:1",
    ];
    for text in cases.into_iter().chain([long_name.as_str(), &huge]) {
        assert!(text.parse::<FieldSelector>().is_err(), "{text:?} became {}", canonical(text));
    }
}

#[test]
fn a_fault_names_what_may_stand_there() {
    let of = |text: &str| text.parse::<FieldSelector>().unwrap_err().to_string();
    assert_eq!(
        of("status.phase=CrashLoopBackOff"),
        "has `CrashLoopBackOff` for status.phase, which can be `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`"
    );
    assert!(of("status.hostIP=1").contains("`status.podIP`"), "{}", of("status.hostIP=1"));
    assert_eq!(of("status.phase=Running,"), "has an empty term");
    assert_eq!(of("a"), "has the term `a`, which is not FIELD=VALUE or FIELD!=VALUE");
}
