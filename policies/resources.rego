# Resources: ceilings for a job's cpu and memory, and whether it must name limits.
#
# A ceiling holds for the larger of request and limit, which is what cpu_millis and memory_bytes are. Where
# `require_limits` is false and a job names none, the namespace's LimitRange is what bounds its use.
# Reads: input.job.resources, data.config.resources, data.config.jobs.require_limits.
package kubepermit

deny contains {
	"code": "resources.cpu",
	"msg": sprintf("%dm of cpu is over the ceiling of %dm", [
		input.job.resources.cpu_millis,
		data.config.resources.max_cpu_millis,
	]),
	"field": "/limits/cpu",
	"hint": sprintf("ask for at most %dm", [data.config.resources.max_cpu_millis]),
} if {
	input.job.resources.cpu_millis > data.config.resources.max_cpu_millis
}

deny contains {
	"code": "resources.memory",
	"msg": sprintf("%d bytes of memory are over the ceiling of %d", [
		input.job.resources.memory_bytes,
		data.config.resources.max_memory_bytes,
	]),
	"field": "/limits/memory",
	"hint": sprintf("ask for at most %s", [data.config.resources.max_memory]),
} if {
	input.job.resources.memory_bytes > data.config.resources.max_memory_bytes
}

deny contains {
	"code": "resources.limits_required",
	"msg": sprintf("a job must name limits.%s here", [name]),
	"field": sprintf("/limits/%s", [name]),
	"hint": sprintf("set limits.%s, at most %s", [name, limit.ceiling]),
} if {
	data.config.jobs.require_limits
	some name, limit in {
		"cpu": {"value": input.job.resources.cpu_limit_millis, "ceiling": data.config.resources.max_cpu},
		"memory": {"value": input.job.resources.memory_limit_bytes, "ceiling": data.config.resources.max_memory},
	}
	is_null(limit.value)
}
