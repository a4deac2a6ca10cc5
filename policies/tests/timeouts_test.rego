# Rules of timeouts.rego.
package kubepermit_test

test_a_timeout_at_the_ceiling_is_allowed if {
	decision := data.kubepermit.decision with input as with_job({"timeout_s": 600}) with data.config as base_config
	decision.allow == true
}

test_a_timeout_over_the_ceiling_is_denied if {
	decision := data.kubepermit.decision with input as with_job({"timeout_s": 601}) with data.config as base_config
	only_denial(decision) == {
		"code": "timeouts.ceiling",
		"msg": "a time-out of 601 s is over the ceiling of 600 s",
		"field": "/timeout_s",
		"hint": "ask for at most 600; submit longer work in parts",
	}
}
