# Rules of read_argv.rego: whatever is not known is refused.
package kubepermit_test

# None of these is in the data's list of forbidden flags.
test_an_unknown_flag_is_refused[token] := {"reads.argv", "reads.flag"} == found if {
	some token in [
		"--template={{.}}", "--chunk-size=0", "--sort-by={range}", "--selector", "--selector=", "--output",
		"--output=yaml", "--output=json ", "--OUTPUT=json", "--all_namespaces=true", "--previous=true", "--tail=1",
		"--selector=a=$(id)", "--selector=a\nb", "--field-selector=a=b&limit=1", "--x", "--x=y", "-oyaml", "-l", "-",
		"--=x", "-ojson", "--no-such=1",
	]
	decision := data.kubepermit.decision with input as with_token(token) with data.config as base_config
	found := {code | some code in codes(decision)}
}

test_a_known_flag_with_its_value_is_allowed[token] := decision.allow if {
	some token in [
		"--selector=a=b,c!=d,e in (f,g),!h,example.com/i",
		"--field-selector=type=Warning,involvedObject.name=web-0",
		"--field-selector=spec.nodeName=",
		"--field-selector=status.podIP=fd00::1",
	]
	flags := array.concat(base_read.kubectl.flags, [split(token, "=")[0]])
	call := object.union(with_token(token), {"kubectl": {"flags": flags}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
}

# Facts and argv agree here, so that the value alone is at fault.
test_a_value_that_no_read_has_is_refused[token] := codes(decision) == ["reads.flag"] if {
	some token in [
		"--output=yaml", "--output=json ", "--output=wide",
		"--output=jsonpath={.items}", "--output=", "--selector=", "--selector= a", "--selector=-A", "--selector=a>1",
		"--selector=a=\u202eb", "--field-selector=", "--field-selector=a", "--field-selector=a=b&limit=1",
		"--field-selector=spec.nodeName=../x", "--field-selector=a=b,", "--request-timeout=0", "--request-timeout=0s",
		"--request-timeout=9999h", "--request-timeout=1000s", "--context=", "--context=a\nb", "--cache-dir=",
		"--cache-dir=x", "--cache-dir=/", "--namespace=", "--namespace=-A", "--namespace=a/../b", "--namespace=a%2f..",
		"--namespace=Dev",
	]
	decision := data.kubepermit.decision with input as setting(base_read, token) with data.config as reads_with(["*"])
}

test_a_value_that_no_log_has_is_refused[token] := codes(decision) == ["reads.flag"] if {
	some token in [
		"--tail=-1", "--tail=0", "--tail=10000", "--tail=", "--limit-bytes=0", "--limit-bytes=1000000000",
		"--limit-bytes=-1", "--container=a/b", "--container=-p", "--container=", "--container=A", "--previous=false",
		"--previous=", "--since=0s", "--since=1h", "--since=-1s", "--since=100000000s",
		"--output=json", "--selector=a=b",
	]
	decision := data.kubepermit.decision with input as setting(reading_logs, token) with data.config as reads_with(["*"])
}

test_a_value_that_no_description_has_is_refused[token] := codes(decision) == ["reads.flag"] if {
	some token in ["--show-events=false", "--show-events=", "--output=json", "--tail=1"]
	call := setting(describing("pods", ""), token)
	decision := data.kubepermit.decision with input as call with data.config as reads_with(["*"])
}

test_what_a_read_may_have_is_allowed[token] := decision.allow if {
	some token, call in {
		"--tail=2000": reading_logs, "--limit-bytes=1": reading_logs, "--container=a-1": reading_logs,
		"--previous=true": reading_logs, "--since=31536000s": reading_logs, "--show-events=true": describing("pods", ""),
		"--request-timeout=999s": base_read, "--context=arn:aws:eks:eu-1:1:cluster/a b": base_read,
		"--namespace=a-1": base_read,
	}
	decision := data.kubepermit.decision with input as setting(call, token) with data.config as reads_with(["*"])
}

test_all_namespaces_is_true_and_for_lists_alone[name] := says(message, decision) if {
	some name, call in {
		"false": setting(reading_everywhere, "--all-namespaces=false"),
		"True": setting(reading_everywhere, "--all-namespaces=True"),
		"log": setting(reading_logs, "--all-namespaces=true"),
		"description": setting(describing("pods", ""), "--all-namespaces=true"),
	}
	message := "`--all-namespaces` is not a flag and value that a read may have"
	decision := data.kubepermit.decision with input as call with data.config as reads_with(["*"])
}

# The call with one flag set, in its place if it is there and else in front of "--"; the facts follow.
setting(call, token) := object.union(call, {"kubectl": {
	"argv": array.concat(
		array.concat([call.kubectl.verb], options),
		array.slice(call.kubectl.argv, separator, count(call.kubectl.argv)),
	),
	"flags": [split(option, "=")[0] | some option in options],
	"namespace": setting_namespace(call, token),
}}) if {
	name := split(token, "=")[0]
	separator := [i | some i, other in call.kubectl.argv; other == "--"][0]
	before := array.slice(call.kubectl.argv, 1, separator)
	replaced := [option | some other in before; option := setting_option(other, name, token)]
	options := array.concat(replaced, [token | not name in call.kubectl.flags])
}

setting_option(other, name, token) := token if split(other, "=")[0] == name

setting_option(other, name, _) := other if split(other, "=")[0] != name

setting_namespace(_, token) := trim_prefix(token, "--namespace=") if startswith(token, "--namespace=")

setting_namespace(call, token) := call.kubectl.namespace if not startswith(token, "--namespace=")

test_a_word_before_the_separator_is_refused[token] := says("a word stands before `--`", decision) if {
	some token in ["secrets", "x", "", "https://h", "/api", "get", "output=json"]
	decision := data.kubepermit.decision with input as with_token(token) with data.config as base_config
}

# The last of two would win.
test_a_flag_twice_is_refused[token] := says(message, decision) if {
	some token in ["--namespace=kube-system", "--namespace=dev", "--context=evil", "--output=json", "--cache-dir=/x"]
	message := sprintf("flag `%s` is there twice", [split(token, "=")[0]])
	decision := data.kubepermit.decision with input as with_token(token) with data.config as base_config
}

test_a_namespace_of_the_argv_is_not_hidden_by_the_facts[token] := codes(decision) == ["reads.argv"] if {
	some token in ["--namespace=kube-system", "--all-namespaces=true"]
	argv := array.concat(array.concat(["get", "--context=test", token], array.slice(base_read.kubectl.argv, 3, 6)), [
		"--",
		"pods",
	])
	flags := ["--context", split(token, "=")[0], "--request-timeout", "--cache-dir", "--output"]
	call := with_read({"argv": argv, "flags": flags})
	decision := data.kubepermit.decision with input as call with data.config as base_config
}

# The namespaces that are judged are those that are read, also where both facts are wrong together.
test_a_scope_of_the_argv_is_not_hidden_by_the_facts[name] := codes(decision) == ["reads.argv"] if {
	some name, changes in {
		"named and all": {"namespace": "dev", "all_namespaces": true},
		"named, all in the argv": {"namespace": "dev", "all_namespaces": false},
		"none, all in the argv": {"namespace": null, "all_namespaces": false},
	}
	call := object.union(reading_everywhere, {"kubectl": changes})
	decision := data.kubepermit.decision with input as call with data.config as reads_with(["*"])
}

test_the_resource_of_a_log_is_pods[name] := "reads.argv" in codes(decision) if {
	some name, changes in {"resource": {"resource": "services"}, "group": {"group": "apps"}, "verb": {"verb": "get"}}
	call := object.union(reading_logs, {"kubectl": changes})
	decision := data.kubepermit.decision with input as call with data.config as base_config
}

test_the_verb_of_a_log_is_logs if {
	argv := array.concat(["exec"], array.slice(reading_logs.kubectl.argv, 1, 10))
	call := object.union(reading_logs, {"kubectl": {"argv": argv}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["reads.argv"]
}

test_a_flag_that_must_be_there_is_missed[name] := says(sprintf("flag `%s` is missing", [name]), decision) if {
	some call in [base_read, reading_logs, describing("pods", "")]
	some name in call.kubectl.flags
	not name in ["--namespace", "--container"]
	argv := [token | some token in call.kubectl.argv; not startswith(token, sprintf("%s=", [name]))]
	less := object.union(call, {"kubectl": {"argv": argv}})
	decision := data.kubepermit.decision with input as less with data.config as base_config
}

test_the_namespace_of_a_log_must_be_there if {
	argv := [token | some token in reading_logs.kubectl.argv; not startswith(token, "--namespace=")]
	call := object.union(reading_logs, {"kubectl": {"argv": argv}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	says("flag `--namespace` is missing", decision)
}

test_the_separator_is_there_once[name] := says("the argv has not exactly one `--`", decision) if {
	some name, argv in {
		"none": array.concat(array.slice(base_read.kubectl.argv, 0, 6), ["pods"]),
		"two": array.concat(base_read.kubectl.argv, ["--"]),
		"empty": [],
		"verb": ["get"],
	}
	decision := data.kubepermit.decision with input as with_read({"argv": argv}) with data.config as base_config
}

# Whether one of the denials has this text.
says(message, decision) := message in [entry.msg | some entry in decision.deny]

test_a_name_is_a_name[name] := "reads.name" in codes(decision) if {
	some name in [
		"-A", "--raw=/api", "", ".", "..", "../secrets/s1", "a%2fb", "a b", "p1\n", "p1;id", "$(id)", "-",
		"@/etc/passwd", "P1", "secret/s1", "pods,secrets", "secrets.", "a..b", "a\u202eb", long_name,
	]
	argv := array.concat(array.slice(reading_logs.kubectl.argv, 0, 9), [name])
	call := object.union(reading_logs, {"kubectl": {"argv": argv}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
}

long_name := concat("", [letter | some _ in numbers.range(1, 254); letter := "a"])

test_a_second_name_is_refused if {
	call := with_read({"argv": array.concat(base_read.kubectl.argv, ["web-0"])})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["reads.argv"]
}

test_a_kuberc_in_a_value_is_refused[token] := "reads.flag" in codes(decision) if {
	some token in ["--selector=x--kuberc=path", "--selector=a=b,x--kuberc=p", "--selector=x--KubeRC=p"]
	decision := data.kubepermit.decision with input as with_token(token) with data.config as base_config
}
