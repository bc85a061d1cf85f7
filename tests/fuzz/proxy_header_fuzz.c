/*
 * PROXY headers: each verdict is the same for every longer input, no byte behind the header is needed for it, and less
 * than the header is never enough.
 */
#include <stdlib.h>
#include <string.h>

#include "edge/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proxy_header whole, part;
	char *p = malloc(size + 1); /* of just that size: reading on is seen */
	enum proxy_header_result verdict;

	CHECK(p != NULL);
	memcpy(p, data, size);
	verdict = proxy_header_parse(p, size, &whole);
	if (verdict == PROXY_HEADER_DONE) {
		CHECK(whole.bytes > 0 && whole.bytes <= size && whole.bytes <= PROXY_HEADER_MAX);
		CHECK(!whole.known || whole.client.len > 0);
		CHECK(proxy_header_parse(p, whole.bytes, &part) == PROXY_HEADER_DONE);
		CHECK(part.bytes == whole.bytes);
		for (size_t n = 0; n < whole.bytes; n++)
			CHECK(proxy_header_parse(p, n, &part) == PROXY_HEADER_MORE);
	}
	for (size_t n = 0; verdict == PROXY_HEADER_MORE && n < size; n++)
		CHECK(proxy_header_parse(p, n, &part) == PROXY_HEADER_MORE);
	free(p);
	return 0;
}
