/* How values are written: durations, sizes, percent, statuses, modes, names. Pure; -EINVAL, -ERANGE. */
#ifndef BRIM_CONF_VALUE_H
#define BRIM_CONF_VALUE_H

#include "edge/base/check.h"
#include "edge/base/view.h"

/* "250ms", "10s", "5m", "1h", "30d". */
int conf_value_duration(struct view v, int64_t *out_ms) NODISCARD;
/* "512B", "64KiB", "10MiB", "200GiB", "1TiB"; "1KB" (1000), "1MB", "1GB", "1TB". */
int conf_value_size(struct view v, uint64_t *out_bytes) NODISCARD;
/* "1%" to "100%". */
int conf_value_percent(struct view v, uint8_t *out_percent) NODISCARD;
/* "404"; "5xx" is 500 to 599. */
int conf_value_status(struct view v, uint16_t *out_from, uint16_t *out_to) NODISCARD;
/* The same, or "400-499". */
int conf_value_status_range(struct view v, uint16_t *out_from, uint16_t *out_to) NODISCARD;
/* "0660". */
int conf_value_mode(struct view v, uint32_t *out_mode) NODISCARD;

/* A lower-case DNS name (underscores allowed), without a final dot; or an IPv4 address. */
bool conf_value_domain(struct view v);

#endif
