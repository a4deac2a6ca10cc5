# The decision: joins the rules of all concerns into one answer, data.kubepermit.decision.
#
# Enforces: nothing is allowed unless the tool has rules here, the data is there, and no rule denies.
# Site rules (package site) may add to `deny` and `warn`. They cannot allow: `allow` reads nothing of theirs.
# Reads: input.tool, data.config (only whether it is there), data.site.deny, data.site.warn.
#
# Each entry of `deny` and `warn` is an object:
#   code   stable name for programs: concern.rule
#   msg    what is wrong
#   field  JSON pointer into the call's arguments, or "" where none is to blame
#   hint   what to change, or ""
package kubepermit

# The tools that have rules, and the part of the input that those rules read.
tools := {
	"run_job": "job",
	"submit_job": "job",
	"fetch_job": "handle",
	"cancel_job": "handle",
	"list_pods": "kubectl",
	"pod_logs": "kubectl",
	"describe_resource": "kubectl",
	"list_events": "kubectl",
}

decision := {
	"allow": allow,
	"deny": [entry | some entry in deny],
	"warn": [entry | some entry in warn],
}

default allow := false

allow if {
	is_object(input[tools[input.tool]])
	is_object(data.config)
	count(deny) == 0
}

deny contains {
	"code": "tool.unknown",
	"msg": sprintf("the policy has no rules for tool `%v`", [input.tool]),
	"field": "",
	"hint": "",
} if {
	not is_object(input[tools[input.tool]])
}

deny contains {
	"code": "config.missing",
	"msg": "the policy has no data",
	"field": "",
	"hint": "",
} if {
	not is_object(data.config)
}

# A site rule may leave out `field` and `hint`.
deny contains object.union({"field": "", "hint": ""}, entry) if some entry in data.site.deny

warn contains object.union({"field": "", "hint": ""}, entry) if some entry in data.site.warn
