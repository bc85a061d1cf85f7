/* From a merged tree to a snapshot: what conf_build, conf_read and conf_quick_text share. */
#ifndef BRIM_CONF_BUILD_H
#define BRIM_CONF_BUILD_H

#include "conf/fault.h"

struct cJSON;
struct conf_files;

/* slots: see slots.h; files: see files.h; either may be NULL. -EINVAL with faults told; -ENOMEM (told too). */
int conf_build_tree(const struct cJSON *tree, const struct cJSON *slots, struct conf_files *files,
		    const struct conf_places *places, uint32_t generation,
		    struct conf_faults *faults, struct conf **out) NODISCARD;

#endif
