/*
 * GET /: the status page, one file that is built into the program. It holds nothing secret and asks for a token
 * itself. Its policy allows its own script and style by their hashes, nothing else, lets it talk to the API alone, and lets nobody
 * frame it. The hashes are made from the text for each answer: some 100 µs, and no step of the build can forget them.
 */
#include "edge/admin_call.h"
#include "edge/base/base64.h"
#include "edge/base/hash.h"

__asm__(".pushsection .rodata\n"
	"admin_page_text: .incbin \"edge/admin_page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char admin_page_text[];

struct page_hash {
	char text[BASE64_BYTES(32) + 1];
};

static const char *find(const char *in, const char *tag)
{
	const char *at = strstr(in, tag);

	CHECK(at != NULL);
	return at;
}

/* Of what stands between two tags. */
static struct page_hash hash_between(const char *open, const char *close)
{
	const char *from = find(admin_page_text, open) + strlen(open), *end = find(from, close);
	struct page_hash out = { 0 };
	uint8_t hash[32];

	hash_sha256(view_of(from, (size_t)(end - from)), hash);
	base64_encode(view_of((const char *)hash, sizeof(hash)), out.text);
	return out;
}

enum admin_progress admin_page(struct admin_call *c)
{
	struct page_hash script = hash_between("<script>", "</script>");
	struct page_hash style = hash_between("<style>", "</style>");
	struct view headers = arena_printf(
		&c->arena,
		"Content-Security-Policy: default-src 'none'; script-src 'sha256-%s'; "
		"style-src 'sha256-%s'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
		"frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n",
		script.text, style.text);

	if (headers.p == NULL)
		return admin_error(c, 503, "", "no memory");
	c->headers = headers.p;
	return admin_answer_text(c, 200, "text/html; charset=utf-8", view_str(admin_page_text));
}
