/* The guard against cache deception: paths and content types. */
#include "cache/verdict_guard.h"
#include "tests/unit/cache/verdict_table.h"

static const struct {
	const char *path, *type; /* NULL: no Content-Type */
	bool want;
} pairs[] = {
	{ "/a/x.css", "text/html", true },
	{ "/a/x.css", "text/css", false },
	{ "/a/x.css", "TEXT/CSS; charset=utf-8", false },
	{ "/a/x.css", "text/csv", true },
	{ "/a/x.css", "application/json", true },
	{ "/a/x.css", "", true },
	{ "/a/x.css", NULL, false },
	{ "/a/x.css", "application/octet-stream", false },
	{ "/a/x.css", "binary/octet-stream", false },
	{ "/a/x.CSS", "text/html", true },
	{ "/a/x.css?a=b", "text/html", true },
	{ "/a/x.css?a=b.html", "text/html", true },
	{ "/a?x.css", "text/html", false },
	{ "/a/.css", "text/html", true },
	{ "/a;x.css", "text/html", true },
	{ "/a%3bx.css", "text/html", true },
	{ "/a%3fx.css", "text/html", true },
	{ "/a%2fx.css", "text/html", true },
	{ "/a%0ax.css", "text/html", true },
	{ "/a%00.css", "text/html", true },
	{ "/a/x%2ecss", "text/html", true },
	{ "/a/x.%63s%73", "text/html", true },
	{ "/a/x.css/", "text/html", false },
	{ "/a/x.css%2f", "text/html", false },
	{ "/a.css/b", "text/html", false },
	{ "/a/x.css.html", "text/html", false },
	{ "/a/x.html.css", "text/html", true },
	{ "/a/x.cssx", "text/html", false },
	{ "/a/x.averylongextension", "text/html", false },
	{ "/a/x.averylongextension.css", "text/html", true },
	{ "/a/x.", "text/html", false },
	{ "/a/css", "text/html", false },
	{ "/a/x.%", "text/html", false },
	{ "/a/x.css%", "text/html", false },
	{ "/", "text/html", false },
	{ "*", "text/html", false },
	{ "/x.js", "text/javascript", false },
	{ "/x.js", "application/javascript; charset=utf-8", false },
	{ "/x.js", "application/x-javascript", false },
	{ "/x.mjs", "text/html", true },
	{ "/x.js", "application/json", true },
	{ "/x.png", "image/webp", false },
	{ "/x.jpg", "text/plain", true },
	{ "/x.svg", "image/svg+xml", false },
	{ "/x.svg", "application/xml", true },
	{ "/favicon.ico", "image/x-icon", false },
	{ "/favicon.ico", "image/vnd.microsoft.icon", false },
	{ "/x.woff2", "font/woff2", false },
	{ "/x.woff", "application/font-woff", false },
	{ "/x.woff", "application/x-font-woff", false },
	{ "/x.eot", "application/vnd.ms-fontobject", false },
	{ "/x.woff2", "text/html", true },
	{ "/x.mp4", "video/mp4", false },
	{ "/x.mp4", "audio/mp4", false },
	{ "/x.ogg", "application/ogg", false },
	{ "/x.mp3", "text/html", true },
	{ "/x.pdf", "application/pdf", false },
	{ "/x.pdf", "text/html", true },
	{ "/x.zip", "application/zip", false },
	{ "/x.gz", "application/x-gzip", false },
	{ "/x.zip", "application/vnd.api+json", true },
	{ "/x.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false },
	{ "/x.wasm", "application/wasm", false },
	{ "/x.json", "text/html", false }, /* data: no promise of a file */
	{ "/x.txt", "text/html", false },
	{ "/x.php", "text/html", false },
	{ "/x.xml", "text/html", false },
};

static void test_pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		struct lines l;
		char text[256] = "";
		if (pairs[i].type != NULL)
			(void)snprintf(text, sizeof(text), "Content-Type: %s\n", pairs[i].type);
		struct http_response rs = response_of(&l, 200, text);
		if (verdict_guard_contradicts(view_str(pairs[i].path), &rs.fields) != pairs[i].want)
			fault("choice", pairs[i].path, "%s: %d", pairs[i].type, !pairs[i].want);
	}
	table_ends();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
