# Reads, the form of the argv: a verb, then --flag=value tokens that are known here, then "--", then names.
#
# The gateway builds nothing else. These rules hold it to that, on the very tokens that are executed, so that a
# fault in the gateway is a denial: whatever is not known here is refused, not only what is known to be bad.
# Reads: input.kubectl.
package kubepermit

# How many names follow "--".
read_name_counts := {"get": 1, "describe": 2, "logs": 1}

# Each flag that a verb may have, and what its value looks like.
read_values := {
	"get": object.union(read_common_values, {
		"all-namespaces": `^true$`,
		"output": `^json$`,
		"selector": `^[A-Za-z0-9!][-A-Za-z0-9_./!=(), ]*$`,
		"field-selector": `^[A-Za-z.]+!?=[-A-Za-z0-9.:]*(,[A-Za-z.]+!?=[-A-Za-z0-9.:]*)*$`,
	}),
	"describe": object.union(read_common_values, {"show-events": `^true$`}),
	"logs": object.union(read_common_values, {
		"container": `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`,
		"tail": `^[1-9][0-9]{0,3}$`,
		"limit-bytes": `^[1-9][0-9]{0,8}$`,
		"previous": `^true$`,
		"since": `^[1-9][0-9]{0,7}s$`,
	}),
}

read_common_values := {
	"context": `^.+$`,
	"namespace": `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`,
	"request-timeout": `^[1-9][0-9]{0,2}s$`,
	"cache-dir": `^/.+$`,
}

# The flags without which kubectl would choose for itself, by verb.
read_required := {
	"get": ["context", "request-timeout", "cache-dir", "output"],
	"describe": ["context", "namespace", "request-timeout", "cache-dir", "show-events"],
	"logs": ["context", "namespace", "request-timeout", "cache-dir", "tail", "limit-bytes"],
}

deny contains read_fault("reads.flag", sprintf("`%s` is not a flag and value that a read may have", [
	read_flag_shown(token),
])) if {
	some token in read_options
	startswith(token, "-")
	not read_option_known(token)
}

# kubectl looks for --kuberc= inside every argument, values included, and loads the file that follows.
deny contains read_fault("reads.flag", "`--kuberc` is in an argument") if {
	some token in input.kubectl.argv
	contains(replace(lower(token), "_", "-"), "--kuberc")
}

deny contains read_fault("reads.flag", sprintf("flag `--%s` is there twice", [name])) if {
	some i, name in read_option_names
	some j, other in read_option_names
	i < j
	name == other
}

deny contains read_fault("reads.argv", sprintf("flag `--%s` is missing", [name])) if {
	some name in read_required[input.kubectl.verb]
	not name in read_option_names
}

deny contains read_fault("reads.argv", "a word stands before `--`") if {
	some token in read_options
	not startswith(token, "-")
}

deny contains read_fault("reads.argv", "the argv has not exactly one `--`") if {
	is_object(input.kubectl)
	count(read_separators) != 1
}

deny contains read_fault("reads.argv", "the names behind `--` are not as many as the verb takes") if {
	is_object(input.kubectl)
	not read_name_counts[input.kubectl.verb] == count(read_names)
}

deny contains read_fault("reads.name", "what stands behind `--` is no object's name") if {
	some name in read_names
	not read_name_valid(name)
}

# The facts that other rules judge must be those of the argv.
deny contains read_fault("reads.argv", "the argv and what is known of it do not agree") if {
	is_object(input.kubectl)
	not read_facts_agree
}

read_facts_agree if {
	input.kubectl.argv[0] == input.kubectl.verb
	[option | some option in read_options; read_is_scope(option)] == read_scope
	[sprintf("--%s", [name]) | some name in read_option_names] == input.kubectl.flags
	input.kubectl.verb == "logs"
	input.kubectl.resource == "pods"
	input.kubectl.group == ""
}

read_facts_agree if {
	input.kubectl.argv[0] == input.kubectl.verb
	[option | some option in read_options; read_is_scope(option)] == read_scope
	[sprintf("--%s", [name]) | some name in read_option_names] == input.kubectl.flags
	input.kubectl.verb != "logs"
	read_names[0] == read_word
}

read_is_scope(option) if startswith(option, "--namespace=")

read_is_scope(option) if startswith(option, "--all-namespaces=")

read_scope := [sprintf("--namespace=%s", [input.kubectl.namespace])] if {
	is_string(input.kubectl.namespace)
	input.kubectl.all_namespaces == false
}

read_scope := ["--all-namespaces=true"] if {
	is_null(input.kubectl.namespace)
	input.kubectl.all_namespaces == true
}

read_word := input.kubectl.resource if input.kubectl.group == ""

read_word := sprintf("%s.%s", [input.kubectl.resource, input.kubectl.group]) if input.kubectl.group != ""

read_separators := [i | some i, token in input.kubectl.argv; token == "--"]

read_separator := read_separators[0] if count(read_separators) > 0

read_separator := count(input.kubectl.argv) if count(read_separators) == 0

read_options := array.slice(input.kubectl.argv, 1, read_separator)

read_names := array.slice(input.kubectl.argv, read_separator + 1, count(input.kubectl.argv))

read_option_names := [trim_prefix(split(option, "=")[0], "--") | some option in read_options]

read_option_known(option) if {
	startswith(option, "--")
	parts := split(option, "=")
	pattern := read_values[input.kubectl.verb][trim_prefix(parts[0], "--")]
	regex.match(pattern, concat("=", array.slice(parts, 1, count(parts))))
}

# A subdomain of RFC 1123, which a resource with its group is too.
read_name_valid(name) if {
	count(name) <= 253
	regex.match(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, name)
}

read_fault(code, message) := {
	"code": code,
	"msg": message,
	"field": "",
	"hint": "nothing in the call is at fault; report this",
}
