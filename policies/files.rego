# Input files: how many, and how large together.
#
# Reads: input.job.files, data.config.files.
package kubepermit

deny contains {
	"code": "files.count",
	"msg": sprintf("%d files are over the ceiling of %d", [input.job.files.count, data.config.files.max_count]),
	"field": "/files",
	"hint": "send fewer files, or pack them into one archive and unpack it in the command",
} if {
	input.job.files.count > data.config.files.max_count
}

deny contains {
	"code": "files.bytes",
	"msg": sprintf("%d bytes of files are over the ceiling of %d", [input.job.files.bytes, data.config.files.max_bytes]),
	"field": "/files",
	"hint": "send less, or let the command fetch what it needs",
} if {
	input.job.files.bytes > data.config.files.max_bytes
}
