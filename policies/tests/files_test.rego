# Rules of files.rego.
package kubepermit_test

test_files_at_both_ceilings_are_allowed if {
	call := with_job({"files": {"count": 100, "bytes": 10485760}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	decision.allow == true
}

test_one_file_too_many_is_denied if {
	call := with_job({"files": {"count": 101}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	denial := only_denial(decision)
	denial.code == "files.count"
	denial.msg == "101 files are over the ceiling of 100"
	denial.field == "/files"
}

test_one_byte_too_many_is_denied if {
	call := with_job({"files": {"count": 1, "bytes": 10485761}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	denial := only_denial(decision)
	denial.code == "files.bytes"
	denial.msg == "10485761 bytes of files are over the ceiling of 10485760"
	denial.field == "/files"
}
