/* SPDX-License-Identifier: Apache-2.0 */
#include "jpeg_scripts.h"

#include "image_files.h"

#include <string.h>

/* A group of coefficients. The group's first scan sends the bits from the highest down to bit `first_low`, and each later scan one more bit. next: the group's
 * next scan. begun: whether the first scan was made. */
struct part {
	jpeg_scan_info next;
	int first_low;
	bool begun;
};

static int list_parts(const struct jpeg_compress_struct *c, uint64_t *r, struct part *parts)
{
	int n = 0, blocks = 0, components = c->num_components;
	for (int i = 0; i < components; i++)
		blocks += c->comp_info[i].h_samp_factor * c->comp_info[i].v_samp_factor;
	int together = blocks <= 10 ? test_random_in(r, 1, components) : 1;
	for (int i = 0; i < components; i += together) {
		parts[n] = (struct part){.first_low = test_random_in(r, 0, 3)};
		parts[n].next.comps_in_scan = together < components - i ? together : components - i;
		for (int k = 0; k < parts[n].next.comps_in_scan; k++)
			parts[n].next.component_index[k] = i + k;
		n++;
	}
	for (int i = 0; i < components; i++)
		for (int k = 1; k < 64; k = parts[n++].next.Se + 1) {
			parts[n] = (struct part){.first_low = test_random_in(r, 0, test_random_in(r, 0, 5) ? 3 : 8)};
			parts[n].next = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Ss = k, .Se = 63};
			if (test_random_in(r, 0, 2))
				parts[n].next.Se = test_random_in(r, k, 63);
		}
	return n;
}

/* Returns whether p->next may be the file's next scan: AC scans of a component must follow its DC scan. */
static bool may_follow(const struct part *parts, const struct part *p)
{
	if (p->next.Ss == 0)
		return true;
	for (const struct part *dc = parts; dc->next.Ss == 0; dc++)
		for (int k = 0; k < dc->next.comps_in_scan; k++)
			if (dc->begun && dc->next.component_index[k] == p->next.component_index[0])
				return true;
	return false;
}

void test_jpeg_script(struct jpeg_compress_struct *c, uint64_t seed, bool unfinished)
{
	enum { MOST = 4096 };
	static jpeg_scan_info scans[MOST];
	static struct part parts[4 * 64];
	int left = list_parts(c, &seed, parts), count = left, n = 0;
	while (left) {
		struct part *p = &parts[test_random_in(&seed, 0, count - 1)];
		if ((p->begun && p->next.Al == 0) || !may_follow(parts, p))
			continue;
		p->next.Ah = p->next.Al;
		p->next.Al = p->begun ? p->next.Al - 1 : p->first_low;
		p->begun = true;
		left -= p->next.Al == 0;
		scans[n++] = p->next;
	}
	for (int i = n; unfinished && i--;)
		if (scans[i].Ss > 0) {
			memmove(scans + i, scans + i + 1, (size_t)(--n - i) * sizeof *scans);
			break;
		}
	c->scan_info = scans;
	c->num_scans = n;
}
