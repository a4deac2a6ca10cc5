# Rules of resources.rego.
package kubepermit_test

test_cpu_at_the_ceiling_is_allowed if {
	call := with_job({"resources": {"cpu_millis": 4000, "cpu_limit_millis": 4000}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	decision.allow == true
}

test_cpu_over_the_ceiling_is_denied if {
	call := with_job({"resources": {"cpu_millis": 4001, "cpu_limit_millis": 4001}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision) == {
		"code": "resources.cpu",
		"msg": "4001m of cpu is over the ceiling of 4000m",
		"field": "/limits/cpu",
		"hint": "ask for at most 4000m",
	}
}

test_memory_at_the_ceiling_is_allowed if {
	call := with_job({"resources": {"memory_bytes": 4294967296, "memory_limit_bytes": 4294967296}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	decision.allow == true
}

test_memory_over_the_ceiling_is_denied if {
	call := with_job({"resources": {"memory_bytes": 4294967297, "memory_limit_bytes": 4294967297}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision) == {
		"code": "resources.memory",
		"msg": "4294967297 bytes of memory are over the ceiling of 4294967296",
		"field": "/limits/memory",
		"hint": "ask for at most 4Gi",
	}
}

# The operator's default request counts too, with no limits in the call.
test_a_default_request_over_the_ceiling_is_denied if {
	config := with_config({"resources": {"max_cpu": "500m", "max_cpu_millis": 500}})
	decision := data.kubepermit.decision with input as base_input with data.config as config
	codes(decision) == ["resources.cpu"]
}

test_limits_may_be_left_out_where_they_are_not_required if {
	decision := data.kubepermit.decision with input as base_input with data.config as base_config
	decision.allow == true
}

test_limits_are_required_where_the_data_says_so if {
	config := with_config({"jobs": {"require_limits": true}})
	decision := data.kubepermit.decision with input as base_input with data.config as config
	[[entry.code, entry.field] | some entry in decision.deny] == [
		["resources.limits_required", "/limits/cpu"],
		["resources.limits_required", "/limits/memory"],
	]
	decision.deny[1].hint == "set limits.memory, at most 4Gi"
}

test_one_limit_does_not_stand_for_both if {
	config := with_config({"jobs": {"require_limits": true}})
	call := with_job({"resources": {"cpu_limit_millis": 1000}})
	decision := data.kubepermit.decision with input as call with data.config as config
	only_denial(decision).field == "/limits/memory"
}

test_both_limits_satisfy_the_requirement if {
	config := with_config({"jobs": {"require_limits": true}})
	call := with_job({"resources": {"cpu_limit_millis": 1000, "memory_limit_bytes": 536870912}})
	decision := data.kubepermit.decision with input as call with data.config as config
	decision.allow == true
}
