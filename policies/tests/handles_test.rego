# Jobs in the background.
package kubepermit_test

test_a_job_may_be_fetched if {
	decision := data.kubepermit.decision with input as base_fetch with data.config as base_config
	decision == {"allow": true, "deny": [], "warn": []}
}

test_a_job_may_be_cancelled if {
	call := object.union(base_fetch, {"tool": "cancel_job", "handle": {"operation": "cancel", "wait_s": 0}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	decision.allow == true
}

test_a_fetch_does_not_cancel if {
	call := object.union(base_fetch, {"handle": {"operation": "cancel"}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision).code == "handles.operation"
}

test_a_fetch_without_its_plan_is_denied if {
	call := object.union(base_fetch, {"handle": null})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision).code == "tool.unknown"
}

test_a_submitted_job_is_judged_like_any_other if {
	call := object.union(with_job({"background": true}), {"tool": "submit_job"})
	allowed := data.kubepermit.decision with input as call with data.config as base_config
	allowed.allow == true
	evil := object.union(call, {"job": {"image": {"key": "docker.io/library/evil:latest"}, "timeout_s": 601}})
	denied := data.kubepermit.decision with input as evil with data.config as base_config
	codes(denied) == ["images.not_listed", "timeouts.ceiling"]
}

test_a_site_can_refuse_the_background if {
	call := object.union(with_job({"background": true}), {"tool": "submit_job"})
	decision := data.kubepermit.decision with input as call
		with data.config as base_config
		with data.site.deny as {{"code": "site.foreground", "msg": "wait for it"}}
	decision.allow == false
}
