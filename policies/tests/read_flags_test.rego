# Rules of read_flags.rego: forbidden flags in every spelling that kubectl takes.
package kubepermit_test

test_a_forbidden_flag_is_found_in_every_spelling[token] := "reads.flag" in found if {
	some token in [
		"--raw", "--raw=/api", "--RAW=/api", "---raw", "--server=http://h", "--Server=http://h",
		"--as-group=system:masters", "--as_group=system:masters", "--AS_group=x", "--filename=-",
		"-s", "-shttp://h", "-s=http://h", "-Ashttp://h", "-AAs", "-f", "-f-", "-Rf", "-w", "-Aw", "-Aw=false",
	]
	found := {entry.code | some entry in named(token)}
}

# The message names the flag and shows no value, which may be a credential.
test_the_flag_is_named_without_its_value if {
	[entry.msg | some entry in named("--token=hunter2")] == ["flag `--token` is forbidden"]
	[entry.msg | some entry in named("-shttp://hunter2")] == ["flag `-s` is forbidden"]
}

test_a_flag_behind_the_separator_is_found_too if {
	call := with_read({"argv": array.concat(base_read.kubectl.argv, ["--raw=/api"])})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	"flag `--raw` is forbidden" in [entry.msg | some entry in decision.deny]
}

# The list is the site's to lengthen, with flags that the gateway does write.
test_a_flag_of_the_gateways_own_can_be_forbidden if {
	call := with_read({
		"verb": "logs",
		"flags": array.concat(reading_logs.kubectl.flags, ["--previous"]),
		"argv": array.concat(
			array.slice(reading_logs.kubectl.argv, 0, 8),
			["--previous=true", "--", "web-0"],
		),
	})
	before := data.kubepermit.decision with input as call with data.config as base_config
	before.allow == true
	after := data.kubepermit.decision with input as call
		with data.config as with_config({"reads": {"forbidden_flags": {"previous": {}}}})
	only_denial(after) == {
		"code": "reads.flag",
		"msg": "flag `--previous` is forbidden",
		"field": "",
		"hint": "leave out the argument that asks for it",
	}
}

# Only the rule on forbidden flags, without the rules on the argv's form.
named(token) := [entry | some entry in decision.deny; endswith(entry.msg, "is forbidden")] if {
	decision := data.kubepermit.decision with input as with_token(token) with data.config as base_config
}
