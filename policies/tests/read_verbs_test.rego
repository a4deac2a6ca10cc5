# Rules of read_verbs.rego and read_kinds.rego.
package kubepermit_test

test_a_listed_verb_may_run if {
	decision := data.kubepermit.decision with input as describing("deployments", "apps") with data.config as base_config
	decision.allow == true
}

test_a_verb_that_is_taken_off_the_list_may_not_run if {
	config := object.union(object.remove(base_config, ["reads"]), {"reads": object.union(
		object.remove(base_config.reads, ["verbs"]),
		{"verbs": {"get": {}, "describe": {}}},
	)})
	decision := data.kubepermit.decision with input as reading_logs with data.config as config
	only_denial(decision) == {"code": "reads.verb", "msg": "`kubectl logs` is not allowed", "field": "", "hint": ""}
}

test_a_verb_that_writes_may_not_run_whatever_the_data_lists[verb] := denied if {
	some verb in ["delete", "exec", "edit", "apply", "create", "cp", "GET", "get ", "", "--", "ge"]
	call := with_read({"verb": verb, "argv": array.concat([verb], array.slice(base_read.kubectl.argv, 1, 8))})
	config := with_config({"reads": {"verbs": {verb: {}}}})
	decision := data.kubepermit.decision with input as call with data.config as config
	denied := decision.allow == false
}

# The verb that the rules judge is the one that runs.
test_a_verb_of_the_argv_is_not_hidden_by_the_facts if {
	call := with_read({"argv": array.concat(["delete"], array.slice(base_read.kubectl.argv, 1, 8))})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["reads.argv"]
}

test_logs_may_be_read if {
	decision := data.kubepermit.decision with input as reading_logs with data.config as base_config
	decision.allow == true
}

test_a_secret_may_not_be_read[resource] := denied if {
	some resource in ["secrets", "secret", "Secrets", "SECRETS"]
	decision := data.kubepermit.decision with input as describing(resource, "") with data.config as base_config
	denied := "reads.kind" in codes(decision)
}

# Not even a site that lists it can read one.
test_a_secret_may_not_be_read_when_it_is_listed if {
	decision := data.kubepermit.decision with input as describing("secrets", "")
		with data.config as base_config
		with data.kubepermit.readable_resources as {"secrets": ""}
	codes(decision) == ["reads.kind"]
}

test_a_resource_of_another_group_is_another_resource if {
	decision := data.kubepermit.decision with input as describing("pods", "example.com") with data.config as base_config
	only_denial(decision) == {
		"code": "reads.kind",
		"msg": "resource `pods` may not be read",
		"field": "/kind",
		"hint": "",
	}
}

test_a_resource_that_is_not_listed_may_not_be_read[resource] := denied if {
	some resource in ["configmaps", "serviceaccounts", "nodes", "roles", "pods/log", ""]
	decision := data.kubepermit.decision with input as describing(resource, "") with data.config as base_config
	denied := "reads.kind" in codes(decision)
}

# What the argv names is what the facts say.
test_a_resource_of_the_argv_is_not_hidden_by_the_facts[word] := codes(decision) == ["reads.argv"] if {
	some word in ["secrets", "secrets.v1.", "pods.v1.", "pods.example.com", "po"]
	call := with_read({"argv": array.concat(array.slice(base_read.kubectl.argv, 0, 7), [word])})
	config := base_config
	decision := keep_only(data.kubepermit.decision, "reads.name") with input as call with data.config as config
}

keep_only(decision, but) := object.union(
	object.remove(decision, ["deny"]),
	{"deny": [entry | some entry in decision.deny; entry.code != but]},
)

describing(resource, group) := with_read({
	"verb": "describe",
	"resource": resource,
	"group": group,
	"flags": ["--context", "--namespace", "--request-timeout", "--cache-dir", "--show-events"],
	"argv": array.concat(
		array.concat(["describe"], array.slice(base_read.kubectl.argv, 1, 5)),
		["--show-events=true", "--", trim_suffix(concat(".", [resource, group]), "."), "web"],
	),
})

reading_logs := with_read({
	"verb": "logs",
	"flags": ["--context", "--namespace", "--request-timeout", "--cache-dir", "--container", "--tail", "--limit-bytes"],
	"argv": array.concat(
		array.concat(["logs"], array.slice(base_read.kubectl.argv, 1, 5)),
		["--container=main", "--tail=100", "--limit-bytes=67108864", "--", "web-0"],
	),
})
