# Time-outs: a ceiling for the wall clock of a job's command.
#
# Reads: input.job.timeout_s, data.config.timeouts.max_s (already the lower of the data's and the operator's).
package kubepermit

deny contains {
	"code": "timeouts.ceiling",
	"msg": sprintf("a time-out of %d s is over the ceiling of %d s", [input.job.timeout_s, data.config.timeouts.max_s]),
	"field": "/timeout_s",
	"hint": sprintf("ask for at most %d; submit longer work in parts", [data.config.timeouts.max_s]),
} if {
	input.job.timeout_s > data.config.timeouts.max_s
}
