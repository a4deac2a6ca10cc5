# Namespaces: a job's namespace must be listed.
#
# A caller does not choose the namespace, so `field` is empty: it is the operator's setting.
# Reads: input.job.namespace, data.config.jobs.namespaces.
package kubepermit

deny contains {
	"code": "namespaces.not_listed",
	"msg": sprintf("jobs may not run in namespace `%s`", [input.job.namespace]),
	"field": "",
	"hint": namespace_hint,
} if {
	is_object(input.job)
	not data.config.jobs.namespaces[input.job.namespace]
}

namespace_hint := sprintf("allowed: %s", [concat(", ", data.config.jobs.namespaces_shown)]) if {
	count(data.config.jobs.namespaces) > 0
} else := "no namespace is allowed; an operator adds it to config.jobs.namespaces in data.yaml"
