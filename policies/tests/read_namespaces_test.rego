# Rules of read_namespaces.rego.
package kubepermit_test

test_a_listed_namespace_may_be_read if {
	decision := data.kubepermit.decision with input as base_read with data.config as base_config
	decision == {"allow": true, "deny": [], "warn": []}
}

test_a_namespace_that_is_not_listed_may_not_be_read if {
	decision := data.kubepermit.decision with input as reading("prod") with data.config as base_config
	only_denial(decision) == {
		"code": "reads.namespace",
		"msg": "namespace `prod` may not be read; allowed: dev, staging",
		"field": "/namespace",
		"hint": "name one of the allowed namespaces",
	}
}

# No part of a name counts for the whole, and no letter's case is overlooked.
test_a_name_that_looks_like_a_listed_one_may_not_be_read[namespace] := denied if {
	some namespace in ["de", "dev1", "dev-", "devdev", "staging-dev", "DEV", " dev", "dev ", "d*", "*"]
	decision := data.kubepermit.decision with input as reading(namespace) with data.config as base_config
	denied := "reads.namespace" in codes(decision)
}

test_with_no_namespace_listed_nothing_is_read if {
	config := reads_with([])
	decision := data.kubepermit.decision with input as base_read with data.config as config
	denial := only_denial(decision)
	denial.code == "reads.namespace"
	denial.msg == "namespace `dev` may not be read; none may"
	denial.hint == "an operator adds namespaces to config.reads.namespaces in data.yaml or to --allow-namespaces"
}

test_a_long_list_of_namespaces_is_cut_in_the_message if {
	config := reads_with([sprintf("n%02d", [i]) | some i in numbers.range(1, 12)])
	decision := data.kubepermit.decision with input as reading("prod") with data.config as config
	shown := "n01, n02, n03, n04, n05, n06, n07, n08, n09, n10"
	only_denial(decision).msg == sprintf("namespace `prod` may not be read; allowed: %s, and 2 more", [shown])
}

test_ten_namespaces_are_listed_whole if {
	config := reads_with([sprintf("n%02d", [i]) | some i in numbers.range(1, 10)])
	decision := data.kubepermit.decision with input as reading("prod") with data.config as config
	endswith(only_denial(decision).msg, "allowed: n01, n02, n03, n04, n05, n06, n07, n08, n09, n10")
}

test_a_read_of_all_namespaces_needs_every_one if {
	decision := data.kubepermit.decision with input as reading_everywhere with data.config as base_config
	only_denial(decision) == {
		"code": "reads.all_namespaces",
		"msg": "not every namespace may be read; allowed: dev, staging",
		"field": "/namespace",
		"hint": "name one of the allowed namespaces",
	}
}

test_a_star_stands_for_every_namespace[name] := decision.allow if {
	some name, call in {"one": reading("prod"), "system": reading("kube-system"), "all": reading_everywhere}
	decision := data.kubepermit.decision with input as call with data.config as reads_with(["*"])
}

test_a_namespace_of_a_role_may_be_read_by_its_holder if {
	decision := data.kubepermit.decision with input as as_role(reading("build"), ["reader", "builder"])
		with data.config as config_with_read_roles
	decision.allow == true
}

test_a_namespace_of_a_role_may_not_be_read_by_others if {
	decision := data.kubepermit.decision with input as as_role(reading("build"), ["reader"])
		with data.config as config_with_read_roles
	only_denial(decision).msg == "namespace `build` may not be read; allowed: dev, staging"
}

test_the_holder_of_a_role_is_told_of_its_namespaces if {
	decision := data.kubepermit.decision with input as as_role(reading("prod"), ["builder"])
		with data.config as config_with_read_roles
	only_denial(decision).msg == "namespace `prod` may not be read; allowed: build, dev, staging"
}

test_a_star_of_a_role_stands_for_every_namespace_to_its_holder_alone if {
	admin := data.kubepermit.decision with input as as_role(reading_everywhere, ["admin"])
		with data.config as config_with_read_roles
	admin.allow == true
	builder := data.kubepermit.decision with input as as_role(reading_everywhere, ["builder"])
		with data.config as config_with_read_roles
	codes(builder) == ["reads.all_namespaces"]
}

# A fact that is missing or of another type is not a reason to allow.
test_a_read_that_says_nothing_of_its_namespace_is_denied[name] := denied if {
	some name, call in {
		"neither": with_read({"namespace": null}),
		"a number": with_read({"namespace": 1}),
		"both": with_read({"all_namespaces": true}),
		"no facts": object.union(object.remove(base_read, ["kubectl"]), {"kubectl": {}}),
		"no namespace": without_fact("namespace"),
		"no argv": without_fact("argv"),
		"no scope": without_fact("all_namespaces"),
		"no flags": without_fact("flags"),
		"no verb": without_fact("verb"),
		"no resource": without_fact("resource"),
		"no group": without_fact("group"),
	}
	decision := data.kubepermit.decision with input as call with data.config as base_config
	denied := decision.allow == false
}

without_fact(key) := object.union(
	object.remove(base_read, ["kubectl"]),
	{"kubectl": object.remove(base_read.kubectl, [key])},
)

# Facts and argv of a read of one namespace.
reading(namespace) := with_read({
	"namespace": namespace,
	"argv": array.concat(
		["get", "--context=test", sprintf("--namespace=%s", [namespace])],
		array.slice(base_read.kubectl.argv, 3, 8),
	),
})

reading_everywhere := with_read({
	"namespace": null,
	"all_namespaces": true,
	"flags": ["--context", "--all-namespaces", "--request-timeout", "--cache-dir", "--output"],
	"argv": array.concat(
		["get", "--context=test", "--all-namespaces=true"],
		array.slice(base_read.kubectl.argv, 3, 8),
	),
})

as_role(call, roles) := object.union(call, {"caller": {"roles": roles}})

reads_with(namespaces) := object.union(object.remove(base_config, ["reads"]), {"reads": object.union(
	object.remove(base_config.reads, ["namespaces"]),
	{"namespaces": {name: {} | some name in namespaces}},
)})

config_with_read_roles := with_config({"roles": {
	"builder": {"images": {}, "images_shown": [], "read_namespaces": {"build": {}}},
	"admin": {"images": {}, "images_shown": [], "read_namespaces": {"*": {}}},
}})
