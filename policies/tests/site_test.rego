# Tests of your own rules. This one says that there are none yet; replace it by yours.
package site_test

test_the_site_adds_nothing_yet if {
	count([entry | some entry in data.site.deny]) == 0
	count([entry | some entry in data.site.warn]) == 0
}
