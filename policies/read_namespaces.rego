# Reads, where: a namespace that is read must be listed, for everybody or for a role that the caller holds.
#
# "*" in a list stands for every namespace. A read of all namespaces at once needs it.
# Reads: input.kubectl.namespace, input.kubectl.all_namespaces, input.caller.roles,
#        data.config.reads.namespaces, data.config.roles[role].read_namespaces.
package kubepermit

deny contains {
	"code": "reads.namespace",
	"msg": sprintf("namespace `%v` may not be read; %s", [input.kubectl.namespace, read_namespaces_listed]),
	"field": "/namespace",
	"hint": read_namespace_hint,
} if {
	is_object(input.kubectl)
	not is_null(input.kubectl.namespace)
	not read_namespace_allowed(input.kubectl.namespace)
}

deny contains {
	"code": "reads.all_namespaces",
	"msg": sprintf("not every namespace may be read; %s", [read_namespaces_listed]),
	"field": "/namespace",
	"hint": read_namespace_hint,
} if {
	is_object(input.kubectl)
	is_null(input.kubectl.namespace)
	not read_namespace_allowed("*")
}

read_namespace_allowed(namespace) if {
	some list in read_namespace_lists
	list[namespace]
}

read_namespace_allowed(_) if {
	some list in read_namespace_lists
	list["*"]
}

# Every list that counts for this caller.
read_namespace_lists := array.concat(
	[data.config.reads.namespaces],
	[list | some role in input.caller.roles; list := data.config.roles[role].read_namespaces],
)

read_namespace_names := sort({name | some list in read_namespace_lists; some name, _ in list})

read_namespaces_shown := concat(", ", array.slice(read_namespace_names, 0, 10))

# A denial must not vanish because its text has no value.
default read_namespaces_listed := "none may"

read_namespaces_listed := sprintf("allowed: %s", [read_namespaces_shown]) if {
	count(read_namespace_names) > 0
	count(read_namespace_names) <= 10
}

read_namespaces_listed := sprintf("allowed: %s, and %d more", [
	read_namespaces_shown,
	count(read_namespace_names) - 10,
]) if {
	count(read_namespace_names) > 10
}

default read_namespace_hint := "name one of the allowed namespaces"

read_namespace_hint := "an operator adds namespaces to config.reads.namespaces in data.yaml or to --allow-namespaces" if {
	count(read_namespace_names) == 0
}
