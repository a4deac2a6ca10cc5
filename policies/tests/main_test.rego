# The decision as a whole.
package kubepermit_test

test_a_listed_image_is_allowed if {
	decision := data.kubepermit.decision with input as base_input with data.config as base_config
	decision == {"allow": true, "deny": [], "warn": []}
}

test_a_tool_without_rules_is_denied if {
	call := object.union(base_input, {"tool": "exec_anything"})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision).code == "tool.unknown"
}

test_a_call_without_its_plan_is_denied if {
	call := object.union(base_input, {"job": null})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["tool.unknown"]
}

test_an_empty_input_is_denied if {
	decision := data.kubepermit.decision with input as {} with data.config as base_config
	not decision.allow
}

test_without_data_nothing_is_allowed if {
	decision := data.kubepermit.decision with input as base_input with data.config as null
	not decision.allow
	"config.missing" in codes(decision)
}

test_all_reasons_are_given_at_once if {
	call := with_job({"timeout_s": 601, "files": {"count": 101}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["files.count", "timeouts.ceiling"]
}

test_a_site_rule_can_deny if {
	decision := data.kubepermit.decision with input as base_input
		with data.config as base_config
		with data.site.deny as {{"code": "site.frozen", "msg": "not today"}}
	decision.allow == false
	decision.deny == [{"code": "site.frozen", "msg": "not today", "field": "", "hint": ""}]
}

test_a_site_rule_can_warn_and_the_call_is_still_allowed if {
	decision := data.kubepermit.decision with input as base_input
		with data.config as base_config
		with data.site.warn as {{"code": "site.no_digest", "msg": "not pinned", "field": "/image"}}
	decision.allow == true
	decision.warn == [{"code": "site.no_digest", "msg": "not pinned", "field": "/image", "hint": ""}]
}

test_a_site_rule_cannot_allow if {
	call := with_job({"image": {"key": "docker.io/library/evil:latest"}})
	decision := data.kubepermit.decision with input as call
		with data.config as base_config
		with data.site.allow as true
	decision.allow == false
}
