/*
 * GET /: the status page, one file that is built into the program. It holds nothing secret and asks for a token
 * itself; its policy lets it load nothing from elsewhere and be framed by nobody.
 */
#include "edge/admin_call.h"

#define PAGE_HEADERS                                                                      \
	"Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "       \
	"style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n"

__asm__(".pushsection .rodata\n"
	"admin_page_text: .incbin \"edge/admin_page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char admin_page_text[];

enum admin_progress admin_page(struct admin_call *c)
{
	c->headers = PAGE_HEADERS;
	return admin_answer_text(c, 200, "text/html; charset=utf-8", view_str(admin_page_text));
}
