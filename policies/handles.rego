# Jobs in the background: what submit_job started may be fetched and ended by whoever started it.
#
# That the token is the caller's own is made sure of in the gateway: another's leads to nothing. A job was judged
# when it was submitted, so a look at it or its end breaks no rule of its own. A site that wants less of it denies in
# site.rego, by input.tool or input.job.background.
# Reads: input.handle.operation.
package kubepermit

handle_operations := {"fetch_job": "fetch", "cancel_job": "cancel"}

deny contains {
	"code": "handles.operation",
	"msg": sprintf("the tool `%v` does not do this to a job", [input.tool]),
	"field": "",
	"hint": "",
} if {
	is_object(input.handle)
	not handle_operations[input.tool] == input.handle.operation
}
