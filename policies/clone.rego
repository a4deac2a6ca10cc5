# Clones: a repository's host and path must be listed, for everybody or for a role that the caller holds.
#
# The URL was taken apart once, and the cloner is given one that is put together from the same parts. A list's
# entry covers a host and port, and what lies below the beginning of a path: whole parts of it, never half a name.
# Reads: input.job.clone, input.caller.roles, data.config.clone, data.config.roles[role].clone_hosts.
package kubepermit

deny contains {
	"code": "clone.host",
	"msg": sprintf("cloning from `%s` is not allowed", [clone_host]),
	"field": "/clone/repo_url",
	"hint": clone_hint,
} if {
	is_object(input.job.clone)
	count(clone_prefixes) == 0
}

deny contains {
	"code": "clone.path",
	"msg": sprintf("cloning `%s` from `%s` is not allowed", [input.job.clone.repository, clone_host]),
	"field": "/clone/repo_url",
	"hint": clone_hint,
} if {
	is_object(input.job.clone)
	count(clone_prefixes) > 0
	not clone_path_listed
}

deny contains {
	"code": "clone.submodules",
	"msg": "submodules are not allowed",
	"field": "/clone",
	"hint": "",
} if {
	is_object(input.job.clone)
	count(input.job.clone.submodules) > 0
	not data.config.clone.submodules
}

clone_path_listed if {
	some prefix in clone_prefixes
	startswith(sprintf("%s/", [input.job.clone.repository]), prefix)
}

# The beginnings of paths that are listed for the host and port: "" for all of them.
clone_prefixes := {prefix | some list in clone_lists; some prefix in list[clone_key]}

clone_key := sprintf("%s:%d", [input.job.clone.host, input.job.clone.port])

default clone_host := ""

clone_host := input.job.clone.host if input.job.clone.port == 443

clone_host := clone_key if input.job.clone.port != 443

# Every list that counts for this caller.
clone_lists := array.concat(
	[data.config.clone.hosts],
	[list | some role in input.caller.roles; list := data.config.roles[role].clone_hosts],
)

clone_names := array.slice(sort([name |
	some list in clone_lists
	some key, prefixes in list
	some prefix in prefixes
	name := trim_suffix(trim_suffix(sprintf("%s/%s", [trim_suffix(key, ":443"), prefix]), "/"), "/")
]), 0, 10)

# A denial must not vanish because its hint has no value.
default clone_hint := ""

clone_hint := "no host is allowed yet; an operator adds hosts to config.clone.hosts in data.yaml" if count(clone_names) == 0

clone_hint := sprintf("allowed: %s", [concat(", ", clone_names)]) if count(clone_names) > 0
