# Rules of images.rego.
package kubepermit_test

test_an_image_that_is_not_listed_is_denied if {
	call := with_job({"image": {"requested": "evil", "key": "docker.io/library/evil:latest"}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	only_denial(decision) == {
		"code": "images.not_listed",
		"msg": "image `evil` is not allowed",
		"field": "/image",
		"hint": "use one of: busybox:1.36",
	}
}

test_another_tag_of_a_listed_image_is_denied if {
	call := with_job({"image": {"requested": "busybox:1.37", "key": "docker.io/library/busybox:1.37"}})
	decision := data.kubepermit.decision with input as call with data.config as base_config
	codes(decision) == ["images.not_listed"]
}

test_with_no_image_listed_nothing_runs if {
	config := object.union(object.remove(base_config, ["images"]), {"images": {}, "images_shown": []})
	decision := data.kubepermit.decision with input as base_input with data.config as config
	denial := only_denial(decision)
	denial.code == "images.not_listed"
	denial.hint == "no image is allowed yet; an operator adds images to config.images in data.yaml"
}

test_an_image_of_a_role_is_allowed_to_its_holder if {
	decision := data.kubepermit.decision with input as golang(["reader", "builder"])
		with data.config as config_with_builder
	decision.allow == true
}

test_an_image_of_a_role_is_denied_to_others if {
	decision := data.kubepermit.decision with input as golang(["reader"]) with data.config as config_with_builder
	only_denial(decision).hint == "use one of: busybox:1.36"
}

test_the_holder_of_a_role_is_told_of_its_images if {
	call := object.union(golang(["builder"]), {"job": {"image": {"key": "docker.io/library/evil:latest"}}})
	decision := data.kubepermit.decision with input as call with data.config as config_with_builder
	only_denial(decision).hint == "use one of: busybox:1.36, golang:1.26"
}

test_a_long_list_is_cut_in_the_hint if {
	config := with_config({
		"images": {sprintf("docker.io/library/i:%d", [i]): {} | some i in numbers.range(1, 24)},
		"images_shown": [sprintf("i:%d", [i]) | some i in numbers.range(1, 10)],
	})
	call := with_job({"image": {"key": "docker.io/library/evil:latest"}})
	decision := data.kubepermit.decision with input as call with data.config as config
	only_denial(decision).hint == "use one of: i:1, i:2, i:3, i:4, i:5, i:6, i:7, i:8, i:9, i:10, and 15 more"
}

golang(roles) := object.union(base_input, {
	"caller": {"roles": roles},
	"job": {"image": {"requested": "golang:1.26", "key": "docker.io/library/golang:1.26"}},
})

config_with_builder := with_config({"roles": {"builder": {
	"images": {"docker.io/library/golang:1.26": {}},
	"images_shown": ["golang:1.26"],
	"read_namespaces": {},
}}})
