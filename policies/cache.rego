# The cache: who may see the volume that jobs share, and who may write to it.
#
# What one caller's job writes there, another caller's job reads: it is a channel between them.
# Reads: input.job.cache, input.caller.roles, data.config.cache.access, data.config.roles[role].cache.
package kubepermit

deny contains {
	"code": "cache.access",
	"msg": "the cache is not for this caller",
	"field": "",
	"hint": "nothing in the call is at fault; report this",
} if {
	is_object(input.job.cache)
	not cache_readable
}

deny contains {
	"code": "cache.write",
	"msg": "this caller may not write to the cache",
	"field": "",
	"hint": "nothing in the call is at fault; report this",
} if {
	is_object(input.job.cache)
	not input.job.cache.read_only
	not "write" in cache_grants
}

cache_readable if {
	some grant in cache_grants
	grant in {"read", "write"}
}

# What this caller is given, by everybody's entry and by its roles. The most of it counts.
cache_grants := array.concat(
	[data.config.cache.access],
	[grant | some role in input.caller.roles; grant := data.config.roles[role].cache],
)
