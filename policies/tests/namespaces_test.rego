# Rules of namespaces.rego.
package kubepermit_test

test_a_listed_namespace_is_allowed if {
	config := with_config({"jobs": {"namespaces": {"batch": {}}}})
	decision := data.kubepermit.decision with input as with_job({"namespace": "batch"}) with data.config as config
	decision.allow == true
}

test_a_namespace_that_is_not_listed_is_denied if {
	call := with_job({"namespace": "kube-system"})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision) == {
		"code": "namespaces.not_listed",
		"msg": "jobs may not run in namespace `kube-system`",
		"field": "",
		"hint": "allowed: mcp-ephemeral",
	}
}

test_with_no_namespace_listed_nothing_runs if {
	config := replace_namespaces({}, [])
	decision := data.kubepermit.decision with input as base_input with data.config as config
	denial := only_denial(decision)
	denial.code == "namespaces.not_listed"
	denial.hint == "no namespace is allowed; an operator adds it to config.jobs.namespaces in data.yaml"
}

# object.union joins objects and cannot empty one.
replace_namespaces(namespaces, shown) := object.union(object.remove(base_config, ["jobs"]), {"jobs": {
	"namespaces": namespaces,
	"namespaces_shown": shown,
	"require_limits": false,
}})
