# Rules of env.rego.
package kubepermit_test

test_other_names_are_allowed if {
	# Neither a name that contains a reserved one, nor one in other letters, is reserved.
	call := with_job({"env_names": ["MODE", "GOPROXY_", "MY_GOPROXY", "goproxy", "KUBERNETES", "MY_KUBERNETES_X"]})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	decision.allow == true
}

test_a_reserved_name_is_denied if {
	call := with_job({"env_names": ["MODE", "GOPROXY"]})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision) == {
		"code": "env.reserved",
		"msg": "environment variable `GOPROXY` is reserved",
		"field": "/env/GOPROXY",
		"hint": "leave it out or use another name",
	}
}

test_a_name_with_a_reserved_beginning_is_denied if {
	call := with_job({"env_names": ["KUBERNETES_", "KUBERNETES_SERVICE_HOST"]})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	[entry.field | some entry in decision.deny] == ["/env/KUBERNETES_", "/env/KUBERNETES_SERVICE_HOST"]
}

test_an_operators_variable_gives_way_and_the_record_shows_it if {
	call := with_job({"env_names": ["MODE", "OTHER"], "extra_env_names": ["MODE", "PROXY"]})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	decision.allow == true
	[[entry.code, entry.field] | some entry in decision.warn] == [["env.overridden", "/env/MODE"]]
}

test_an_operators_reserved_variable_does_not if {
	call := with_job({"env_names": ["GOPROXY"], "extra_env_names": ["GOPROXY"]})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["env.reserved"]
}
