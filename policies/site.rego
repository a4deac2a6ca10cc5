# Your own rules. They may add to `deny` and `warn`, and nothing else: no rule in this package can allow.
#
# An entry needs `code` and `msg`; `field` and `hint` may be left out. `data.config.site` in data.yaml is
# yours to use. Try a rule with its test in tests/site_test.rego.
#
# Example: a curfew for one caller, with its list kept in data.yaml.
#
#     deny contains {
#         "code": "site.frozen",
#         "msg": sprintf("`%s` may run nothing during the freeze", [input.caller.name]),
#     } if {
#         data.config.site.frozen[input.caller.name]
#     }
#
# Example: a warning that appears in the record and changes nothing.
#
#     warn contains {"code": "site.no_digest", "msg": "the image is not pinned by digest"} if {
#         is_null(input.job.image.digest)
#     }
package site
