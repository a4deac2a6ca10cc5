# Images: a job's image must be listed, for everybody or for a role that the caller holds.
#
# The comparison is by normal form (docker.io/library/busybox:1.36), one lookup in each list.
# The helper container's image is the operator's own setting and is not judged.
# Reads: input.job.image, input.caller.roles, data.config.images, data.config.roles[role].images.
package kubepermit

deny contains {
	"code": "images.not_listed",
	"msg": sprintf("image `%s` is not allowed", [input.job.image.requested]),
	"field": "/image",
	"hint": image_hint,
} if {
	is_object(input.job)
	not image_listed
}

image_listed if {
	some list in image_lists
	list.images[input.job.image.key]
}

# Every list that counts for this caller: {images: {normal form: {}}, images_shown: [first few, as written]}.
image_lists := array.concat(
	[data.config],
	[list | some role in input.caller.roles; list := data.config.roles[role]],
)

image_count := sum([count(list.images) | some list in image_lists])

image_names := array.slice([name | some list in image_lists; some name in list.images_shown], 0, 10)

# A denial must not vanish because its hint has no value.
default image_hint := ""

image_hint := "no image is allowed yet; an operator adds images to config.images in data.yaml" if image_count == 0

image_hint := sprintf("use one of: %s", [concat(", ", image_names)]) if {
	image_count > 0
	image_count <= count(image_names)
}

image_hint := sprintf("use one of: %s, and %d more", [concat(", ", image_names), image_count - count(image_names)]) if {
	image_count > count(image_names)
}
