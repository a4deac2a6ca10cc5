# Reads, what: a closed list of resources. Secrets are not on it and cannot be put on it.
#
# Reads: input.kubectl.resource, input.kubectl.group.
package kubepermit

# Each resource that may be read, and its API group. Take one out to close it to every caller.
readable_resources := {
	"cronjobs": "batch",
	"daemonsets": "apps",
	"deployments": "apps",
	"endpointslices": "discovery.k8s.io",
	"events": "",
	"horizontalpodautoscalers": "autoscaling",
	"ingresses": "networking.k8s.io",
	"jobs": "batch",
	"limitranges": "",
	"networkpolicies": "networking.k8s.io",
	"persistentvolumeclaims": "",
	"poddisruptionbudgets": "policy",
	"pods": "",
	"replicasets": "apps",
	"resourcequotas": "",
	"services": "",
	"statefulsets": "apps",
}

deny contains {
	"code": "reads.kind",
	"msg": sprintf("resource `%v` may not be read", [input.kubectl.resource]),
	"field": "/kind",
	"hint": "",
} if {
	is_object(input.kubectl)
	not resource_readable
}

resource_readable if {
	not resource_secret
	readable_resources[input.kubectl.resource] == input.kubectl.group
}

resource_secret if startswith(lower(input.kubectl.resource), "secret")
