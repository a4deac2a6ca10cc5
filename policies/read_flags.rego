# Reads, flags: the ones that data.yaml forbids, looked for in the final argv in every spelling of kubectl.
#
# kubectl reads --as_group as --as-group, takes a value with or without "=", and joins one-letter flags
# (-AsURL). The gateway writes none of these; this rule does not rely on that.
# Reads: input.kubectl.argv, data.config.reads.forbidden_flags.
package kubepermit

deny contains {
	"code": "reads.flag",
	"msg": sprintf("flag `%s` is forbidden", [read_flag_shown(token)]),
	"field": "",
	"hint": "leave out the argument that asks for it",
} if {
	some token in input.kubectl.argv
	startswith(token, "-")
	some name in read_flag_names(token)
	data.config.reads.forbidden_flags[name]
}

# --As_Group=x is as-group.
read_flag_names(token) := {name} if {
	startswith(token, "--")
	name := replace(lower(trim_left(split(token, "=")[0], "-")), "_", "-")
}

# -AsURL may be -A and -s; what follows a letter that takes a value is not looked at, which is why a letter
# too many is named rather than one too few.
read_flag_names(token) := {name | some letter in split(token, ""); some name in read_letters[letter]} if {
	not startswith(token, "--")
}

# kubectl's one-letter flags. -f is a file for `get` and `follow` for `logs`.
read_letters := {
	"A": ["all-namespaces"],
	"L": ["label-columns"],
	"R": ["recursive"],
	"c": ["container"],
	"f": ["filename", "follow"],
	"h": ["help"],
	"k": ["kustomize"],
	"l": ["selector"],
	"n": ["namespace"],
	"o": ["output"],
	"p": ["previous"],
	"s": ["server"],
	"v": ["v"],
	"w": ["watch"],
}

# A value may be a credential: it is not shown.
read_flag_shown(token) := substring(split(token, "=")[0], 0, 40) if startswith(token, "--")

read_flag_shown(token) := substring(token, 0, 2) if not startswith(token, "--")
