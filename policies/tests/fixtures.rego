# What the unit tests share: a call that the policy allows, its data, and a way to change one value of either.
package kubepermit_test

# The shape of schemas/policy-input.json.
base_input := {
	"schema": 1,
	"request": {"id": "01900000-0000-7000-8000-000000000000", "time": "2026-01-01T00:00:00Z"},
	"caller": {"name": "local", "roles": [], "transport": "stdio", "client": null},
	"tool": "run_job",
	"arguments": {
		"image": "busybox:1.36",
		"command": ["true"],
		"files": [],
		"env": {},
		"limits": {"cpu": null, "memory": null},
		"timeout_s": null,
		"workdir": null,
		"artifacts": null,
		"clone": null,
	},
	"job": {
		"namespace": "mcp-ephemeral",
		"background": false,
		"image": {
			"requested": "busybox:1.36",
			"registry": "docker.io",
			"repository": "library/busybox",
			"tag": "1.36",
			"digest": null,
			"key": "docker.io/library/busybox:1.36",
		},
		"command": ["true"],
		"env_names": [],
		"files": {"count": 0, "bytes": 0},
		"workdir": "/work",
		"artifacts": {"wanted": "changed", "patterns": []},
		"timeout_s": 60,
		"resources": {
			"cpu_millis": 1000,
			"memory_bytes": 536870912,
			"cpu_request_millis": 1000,
			"memory_request_bytes": 536870912,
			"cpu_limit_millis": null,
			"memory_limit_bytes": null,
		},
		"clone": null,
		"cache": null,
		"extra_env_names": [],
		"manifest": {},
		"manifest_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	},
	"kubectl": null,
	"handle": null,
}

# A read that the policy allows, in the same shape.
base_read := object.union(base_input, {
	"tool": "list_pods",
	"arguments": {},
	"job": null,
	"kubectl": {
		"verb": "get",
		"resource": "pods",
		"group": "",
		"namespace": "dev",
		"all_namespaces": false,
		"flags": ["--context", "--namespace", "--request-timeout", "--cache-dir", "--output"],
		"argv": [
			"get",
			"--context=test",
			"--namespace=dev",
			"--request-timeout=20s",
			"--cache-dir=/private/cache",
			"--output=json",
			"--",
			"pods",
		],
	},
})

# A look at a job in the background that the policy allows, in the same shape.
base_fetch := object.union(base_input, {
	"tool": "fetch_job",
	"arguments": {"job_token": {"digest": "0123456789abcdef0123456789abcdef", "len": 36}, "wait_s": 30},
	"job": null,
	"handle": {"operation": "fetch", "wait_s": 30, "token_digest": "0123456789abcdef0123456789abcdef"},
})

# The shape of schemas/policy-data.json.
base_config := {
	"images": {"docker.io/library/busybox:1.36": {}},
	"images_shown": ["busybox:1.36"],
	"jobs": {
		"namespaces": {"mcp-ephemeral": {}},
		"namespaces_shown": ["mcp-ephemeral"],
		"require_limits": false,
	},
	"resources": {
		"max_cpu": "4",
		"max_cpu_millis": 4000,
		"max_memory": "4Gi",
		"max_memory_bytes": 4294967296,
	},
	"timeouts": {"max_s": 600},
	"files": {"max_count": 100, "max_bytes": 10485760},
	"env": {"reserved": {"GOPROXY": {}}, "reserved_prefixes": ["KUBERNETES_"]},
	"reads": {
		"namespaces": {"dev": {}, "staging": {}},
		"verbs": {"get": {}, "describe": {}, "logs": {}},
		"forbidden_flags": {"raw": {}, "server": {}, "as-group": {}, "token": {}, "filename": {}, "watch": {}},
	},
	"clone": {"hosts": {}, "submodules": false},
	"cache": {"access": "write"},
	"pod": {"profile": "restricted"},
	"limits": {"jobs_per_caller": null},
	"roles": {},
	"site": {},
}

# base_input with some values of `job` replaced, at any depth.
with_job(changes) := object.union(base_input, {"job": changes})

# base_read with some values of `kubectl` replaced, at any depth.
with_read(changes) := object.union(base_read, {"kubectl": changes})

# base_read with one token put in front of its `--`, and the facts as they would be for a harmless call.
with_token(token) := with_read({"argv": array.concat(
	array.slice(base_read.kubectl.argv, 0, 6),
	array.concat([token], array.slice(base_read.kubectl.argv, 6, 8)),
)})

# base_config with some values replaced, at any depth.
with_config(changes) := object.union(base_config, changes)

# The codes of a decision's denials, in order.
codes(decision) := [entry.code | some entry in decision.deny]

# The one denial of a decision, or undefined.
only_denial(decision) := decision.deny[0] if {
	decision.allow == false
	count(decision.deny) == 1
}
