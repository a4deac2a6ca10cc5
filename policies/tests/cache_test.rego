# Rules of cache.rego.
package kubepermit_test

cached(read_only) := with_job({"cache": {"claim": "cache", "mount_path": "/cache", "read_only": read_only}})

cache_config(access, role) := with_config({
	"cache": {"access": access},
	"roles": {"builder": {"images": {}, "images_shown": [], "read_namespaces": {}, "clone_hosts": {}, "cache": role}},
})

test_the_cache_is_as_its_entry_says if {
	rows := [
		["write", false, []],
		["write", true, []],
		["read", true, []],
		["read", false, ["cache.write"]],
		["none", true, ["cache.access"]],
		["none", false, ["cache.access", "cache.write"]],
	]
	every row in rows {
		decision := data.kubepermit.decision with input as cached(row[1])
			with data.config as cache_config(row[0], "none")
		codes(decision) == row[2]
	}
}

test_a_role_gives_more_and_never_less if {
	call := object.union(cached(false), {"caller": {"roles": ["builder"]}})
	more := data.kubepermit.decision with input as call with data.config as cache_config("none", "write")
	more.allow == true
	less := data.kubepermit.decision with input as call with data.config as cache_config("write", "none")
	less.allow == true
	neither := data.kubepermit.decision with input as call with data.config as cache_config("none", "read")
	codes(neither) == ["cache.write"]
}
