# Environment: names that a caller may not set.
#
# A collision is a denial, never a silent override in either direction.
# Reads: input.job.env_names, data.config.env.reserved, data.config.env.reserved_prefixes.
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
