//! kubectl's own texts (versions 1.30 to 1.37) and what becomes of them.

use super::{ReadReason, of_stderr};

#[test]
fn kubectls_texts_become_codes() {
    use ReadReason as R;
    let table: &[(&str, R, &str)] = &[
        ("Error from server (NotFound): pods \"a\" not found\n", R::NotFound, "pods \"a\" not found"),
        (
            "Error from server (NotFound): namespaces \"dev\" not found\n",
            R::NotFound,
            "namespaces \"dev\" not found",
        ),
        (
            "Error from server (Forbidden): pods is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \"pods\" in API group \"\" in the namespace \"dev\"\n",
            R::Forbidden,
            "cannot list resource \"pods\" in API group \"\" in the namespace \"dev\"",
        ),
        ("error: You must be logged in to the server (Unauthorized)\n", R::Unauthorized, "does not accept"),
        (
            "E1129 10:00:00.000000    4242 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list: the server has asked for the client to provide credentials\"\nerror: You must be logged in to the server (the server has asked for the client to provide credentials)\n",
            R::Unauthorized,
            "does not accept",
        ),
        (
            "E1129 10:00:00.000000 4242 memcache.go:265] couldn't get current server API group list: Get \"https://10.0.0.1:6443/api?timeout=20s\": dial tcp 10.0.0.1:6443: connect: connection refused\nThe connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?\n",
            R::Unreachable,
            "the connection is refused",
        ),
        (
            "Unable to connect to the server: dial tcp: lookup api.example on 10.0.0.2:53: no such host\n",
            R::Unreachable,
            "does not resolve",
        ),
        (
            "Unable to connect to the server: net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)\n",
            R::Unreachable,
            "does not answer",
        ),
        ("Unable to connect to the server: EOF\n", R::Unreachable, "cannot be reached"),
        (
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown authority\n",
            R::Untrusted,
            "signed by unknown authority",
        ),
        (
            "Unable to connect to the server: getting credentials: exec: executable aws not found\n\nIt looks like you are trying to use a client-go credential plugin that is not installed.\n",
            R::CredentialPlugin,
            "cannot run",
        ),
        ("error: context \"x\" does not exist\n", R::Context, "no such context"),
        (
            "Error in configuration: context was not found for specified context: x\n",
            R::Context,
            "no such context",
        ),
        (
            "error: error loading config file \"/k\": yaml: line 3: did not find expected key\n",
            R::Kubeconfig,
            "no kubeconfig that may be used",
        ),
        (
            "Error from server (BadRequest): previous terminated container \"main\" in pod \"a\" not found\n",
            R::NoPrevious,
            "has not restarted",
        ),
        (
            "Error from server (BadRequest): a container name must be specified for pod a, choose one of: [main side]\n",
            R::ChooseContainer,
            "[main side]",
        ),
        (
            "error: a container name must be specified for pod a, choose one of: [main side]\n",
            R::ChooseContainer,
            "[main side]",
        ),
        ("error: container x is not valid for pod a out of: main, side\n", R::NoSuchContainer, "main, side"),
        (
            "Error from server (BadRequest): container x is not valid for pod a\n",
            R::NoSuchContainer,
            "container x is not valid for pod a",
        ),
        (
            "Error from server (BadRequest): container \"main\" in pod \"a\" is waiting to start: ContainerCreating\n",
            R::NotRunning,
            "ContainerCreating",
        ),
        (
            "error: unknown flag: --limit-bytes\nSee 'kubectl logs --help' for usage.\n",
            R::TooOld,
            "--limit-bytes",
        ),
        ("error: the server doesn't have a resource type \"cronjobs\"\n", R::NoSuchKind, "of this kind"),
        (
            "Error from server (TooManyRequests): the server has received too many requests and has asked us to try again later\n",
            R::ServerBusy,
            "too many requests",
        ),
        (
            "Error from server (InternalError): an error on the server (\"\") has prevented the request from succeeding\n",
            R::Server,
            "an error on the server",
        ),
        (
            "error: error from server (NotFound): pods \"a\" not found in namespace \"dev\"\n",
            R::NotFound,
            "pods \"a\" not found in namespace \"dev\"",
        ),
        (
            "error: The gcp auth plugin has been removed.\nPlease use the \"gke-gcloud-auth-plugin\" kubectl/client-go credential plugin instead.\n",
            R::CredentialPlugin,
            "cannot run",
        ),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request\n",
            R::ServerBusy,
            "unable to handle",
        ),
        ("error: Get \"https://10.1.2.3/token/api\": odd\n", R::Other, "kubectl failed: Get [address] odd"),
        ("error: something new\n", R::Other, "kubectl failed: something new"),
        ("", R::Other, "kubectl failed"),
    ];
    for (stderr, reason, part) in table {
        let failure = of_stderr(stderr.as_bytes(), false);
        assert_eq!(failure.reason, *reason, "{stderr}");
        assert!(failure.message.contains(part), "{} of {stderr}", failure.message);
        assert!(!failure.message.contains('\n'));
    }
}

#[test]
fn a_message_is_short_clean_and_without_credentials() {
    let stderr = format!(
        "Error from server (NotFound): pods \"a\u{1b}[31m\u{202e}\" Authorization: Bearer abcdefghij1234 {}\n",
        "x".repeat(5000)
    );
    let failure = of_stderr(stderr.as_bytes(), false);
    assert!(failure.message.chars().count() < 600);
    assert!(!failure.message.contains("abcdefghij1234"), "{}", failure.message);
    assert!(!failure.message.contains('\u{202e}') && failure.message.contains("\\u{202e}"));
    let addresses =
        of_stderr(b"Unable to connect to the server: dial tcp 10.1.2.3:6443: i/o timeout\n", false);
    assert!(!addresses.message.contains("10.1.2.3"), "{}", addresses.message);
}

#[test]
fn where_no_cluster_is_known_it_says_so() {
    let stderr = b"Unable to connect to the server: dial tcp: lookup kubepermit.invalid: no such host\n";
    let failure = of_stderr(stderr, true);
    assert_eq!(failure.reason, ReadReason::Kubeconfig);
    assert!(failure.hint.contains("--read-kubeconfig"), "{}", failure.hint);
}
