# Environment: names that a caller may not set.
#
# A collision is a denial, never a silent override in either direction.
# An operator's variable for every job (MCP_K8S_JOB_EXTRA_ENV) that is not reserved gives way to a caller's; that is
# a warning, so that the record shows it.
# Reads: input.job.env_names, input.job.extra_env_names, data.config.env.reserved, data.config.env.reserved_prefixes.
package kubepermit

deny contains {
	"code": "env.reserved",
	"msg": sprintf("environment variable `%s` is reserved", [name]),
	"field": sprintf("/env/%s", [name]),
	"hint": "leave it out or use another name",
} if {
	some name in input.job.env_names
	env_reserved(name)
}

env_reserved(name) if data.config.env.reserved[name]

env_reserved(name) if {
	some prefix in data.config.env.reserved_prefixes
	startswith(name, prefix)
}

warn contains {
	"code": "env.overridden",
	"msg": sprintf("environment variable `%s` replaces the operator's", [name]),
	"field": sprintf("/env/%s", [name]),
	"hint": "",
} if {
	some name in input.job.extra_env_names
	name in input.job.env_names
}
