# Rules of clone.rego.
package kubepermit_test

clone_of(changes) := with_job({"clone": object.union(
	{
		"host": "github.com",
		"port": 443,
		"path": "/my-org/tool.git",
		"repository": "my-org/tool",
		"ref": "main",
		"commit": false,
		"subdir": "repo",
		"submodules": [],
	},
	changes,
)})

hosts(listed) := with_config({"clone": {"hosts": listed}})

test_a_listed_host_is_allowed if {
	decision := data.kubepermit.decision with input as clone_of({}) with data.config as hosts({"github.com:443": [""]})
	decision.allow == true
}

test_with_no_host_listed_nothing_is_cloned if {
	decision := data.kubepermit.decision with input as clone_of({}) with data.config as base_config
	only_denial(decision) == {
		"code": "clone.host",
		"msg": "cloning from `github.com` is not allowed",
		"field": "/clone/repo_url",
		"hint": "no host is allowed yet; an operator adds hosts to config.clone.hosts in data.yaml",
	}
}

test_look_alikes_and_other_ports_are_denied if {
	config := hosts({"github.com:443": [""], "git.example.com:8443": ["team/"]})
	calls := [
		clone_of({"host": "github.com.evil.com"}),
		clone_of({"host": "evilgithub.com"}),
		clone_of({"host": "www.github.com"}),
		clone_of({"port": 8443}),
		clone_of({"host": "git.example.com"}),
	]
	every call in calls {
		decision := data.kubepermit.decision with input as call with data.config as config
		denial := only_denial(decision)
		denial.code == "clone.host"
		denial.hint == "allowed: git.example.com:8443/team, github.com"
	}
}

test_a_path_covers_whole_names if {
	config := hosts({"github.com:443": ["my-org/", "other/one/"]})
	allowed := ["my-org/tool", "my-org/group/tool", "other/one"]
	every repository in allowed {
		call := clone_of({"repository": repository})
		decision := data.kubepermit.decision with input as call with data.config as config
		decision.allow == true
	}
	denied := ["my-organisation/tool", "evil/my-org/tool", "other/one-more", "other", "My-Org/tool"]
	every repository in denied {
		call := clone_of({"repository": repository})
		decision := data.kubepermit.decision with input as call with data.config as config
		only_denial(decision).code == "clone.path"
	}
}

test_a_host_of_a_role_is_for_its_holder if {
	config := with_config({"roles": {"builder": {
		"images": {},
		"images_shown": [],
		"read_namespaces": {},
		"clone_hosts": {"github.com:443": [""]},
		"cache": "none",
	}}})
	holder := object.union(clone_of({}), {"caller": {"roles": ["builder"]}})
	of_holder := data.kubepermit.decision with input as holder with data.config as config
	of_holder.allow == true
	of_other := data.kubepermit.decision with input as clone_of({}) with data.config as config
	codes(of_other) == ["clone.host"]
}

test_submodules_need_their_switch if {
	call := clone_of({"submodules": ["https://github.com/"]})
	config := hosts({"github.com:443": [""]})
	off := data.kubepermit.decision with input as call with data.config as config
	codes(off) == ["clone.submodules"]
	on := data.kubepermit.decision with input as call
		with data.config as object.union(config, {"clone": {"submodules": true}})
	on.allow == true
}
