# Reads, how: the verb must be listed.
#
# Reads: input.kubectl.verb, data.config.reads.verbs.
package kubepermit

deny contains {
	"code": "reads.verb",
	"msg": sprintf("`kubectl %v` is not allowed", [input.kubectl.verb]),
	"field": "",
	"hint": "",
} if {
	is_object(input.kubectl)
	not data.config.reads.verbs[input.kubectl.verb]
}
