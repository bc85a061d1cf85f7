/*
 * A request: from a parsed head to an answered client. A machine without descriptor; it meets its
 * connection through the exchange table, the cache through cache/cache.h, the origin through a fetch.
 *
 *   request.c          begin, end, our own answers
 *   request_route.c    site, rules, what kind of request this is
 *   request_background.c  a request for nobody
 *   request_cache.c    look up, wait for others, decide: hit, stale, revalidate, miss; deliver a hit
 *   request_fetch.c    ask the origin; what its answer means
 *   request_relay.c    what isn't stored: from the origin to the client
 *   shape.c            what rules and client_ttl make of an answer at delivery
 *   request_range.c    parts of a stored object
 *   request_search.c   objects of URLs with another query (No-Vary-Search)
 *   request_part.c     parts that the origin sent: stored, used, made one
 *   request_invalidate.c  what an unsafe method makes unusable
 *   request_purge.c    PURGE
 *   transfer.c         joins a fetch to a fill; the request follows the fill
 *   tunnel.c           when origin and client change the protocol
 */
#ifndef BRIM_EDGE_REQUEST_H
#define BRIM_EDGE_REQUEST_H

#include "cache/cache.h"
#include "edge/base/machine.h"
#include "edge/exchange.h"
#include "edge/target.h"
#include "edge/worker.h"

enum { REQUEST_MAGIC = 0x72657175, REQUEST_ARENA_MAX = 512 << 10, VARY_NAMES_MAX = 32 };

/* Why a request goes on to the origin (RFC 9211 §2.2). */
enum forward_reason {
	FORWARD_NOT,
	FORWARD_BYPASS,
	FORWARD_METHOD,
	FORWARD_URI_MISS,
	FORWARD_VARY_MISS,
	FORWARD_STALE,
	FORWARD_PARTIAL,
};

struct transfer;
struct answer_parts;
struct tunnel;

/* Scopes on their way to the keeper. */
struct purging {
	struct cache_scope *scopes;
	unsigned count, done;
	bool soft;
	uint64_t sequence; /* of what was purged last */
};

struct request {
	uint32_t magic;
	struct machine m;
	struct worker *w;
	struct exchange *x;
	struct request *next_free;
	struct conf *conf;
	struct arena arena;
	struct sock_addr client;

	/* What is asked. rq is the connection's (a background request's own); NULL: its head was bad. */
	const struct http_request *rq;	      /* from here on zeroed for a new request */
	const struct conf_listener *listener; /* until the target is known; NULL: a request for nobody */
	uint16_t early_status;		      /* an error decided before routing; 0: none */
	const char *early_text;
	struct target target;
	const struct conf_origin *origin;
	bool peer_trusted, from_downstream;
	struct view request_id; /* of request_make_id; empty: nobody has asked for it */
	struct view upgrade;	/* the protocols that the origin is offered; empty: none */
	bool background;	/* nobody waits for the answer: revalidate and end */
	bool health;

	/* What the cache has. */
	struct cache_key key; /* primary, and the secondary as far as known */
	bool lookup, waiting, collapsed;
	uint8_t waits;
	struct cache_record record; /* this and the next two are not zeroed */
	struct conf_cache cache;    /* what the site and its rules say */
	struct conf_ruling ruling;
	struct cache_read *pending;	   /* zeroed from here on, too */
	const struct cache_object *object; /* a hit, or a stale one that may be validated */
	struct use_times times;
	bool soft_purged;
	uint64_t lost_id; /* body_id of an object whose body is not all there: as if it weren't; 0: none */
	struct cache_key other; /* of a URL with another query, whose object may do */
	const struct cache_object *part; /* a stored 206 that isn't enough, and its bytes where they become part of another */
	char *part_bytes;
	uint64_t part_read;
	bool asks_part; /* the claim is for a part, and so is what the origin is asked for */
	struct cache_claim *claim;
	struct cache_wait wait;
	struct cache_purge_ask purge;
	struct purging *purging; /* by PURGE, or what an answer makes unusable; NULL: nothing yet */
	uint16_t retries;	 /* of asking for a purge */

	/* What the origin says. */
	enum forward_reason why;
	struct fetch *fetch;
	bool validating, upload_ended;
	uint64_t uploaded;
	enum store_reason store_reason;
	struct pipe *pipe;

	/* What goes to the client. */
	struct answer answer;
	struct transfer *transfer;
	struct list follower; /* in the transfer */
	struct cache_reader reader;
	uint64_t offset, until;	    /* in the stored body: where sending stands, and ends */
	struct answer_parts *parts; /* a multipart answer; NULL: none */
	struct tunnel *tunnel;	    /* NULL: none */
	bool ranged;		    /* GET with Range */
	struct view body;	    /* an answer from memory */
	enum stats_result result;   /* STATS_RESULTS: none of them */
	const char *error;	    /* Proxy-Status type, for the log */
	int64_t origin_us;
	struct view origin_url;
};

/* rq NULL: the head was bad (fault). The exchange is used until its done() is called. 0 or -ENOMEM. */
int request_begin(struct worker *w, struct exchange *x, const struct http_request *rq,
		  enum http_fault fault, const struct conf_listener *listener) NODISCARD;
/* A head that did not come in time: 408. */
int request_begin_timeout(struct worker *w, struct exchange *x) NODISCARD;

/* Bytes of memory that the request of this machine holds; what is fetched for a fill is the fill's. */
size_t request_memory(struct machine *m);

/* --- among the files of the request ------------------------------------------------------------- */

enum request_step {
	REQUEST_ROUTE,
	REQUEST_LOOK_UP,
	REQUEST_OPEN,
	REQUEST_SEARCH,
	REQUEST_PART,
	REQUEST_CLAIM,
	REQUEST_FETCH,
	REQUEST_AWAIT,
	REQUEST_COMBINE,
	REQUEST_RELAY,
	REQUEST_INVALIDATE,
	REQUEST_FOLLOW,
	REQUEST_DELIVER,
	REQUEST_PARTS,
	REQUEST_PURGE,
	REQUEST_SWITCH,
	REQUEST_TUNNEL,
	REQUEST_SEND,
	REQUEST_FINISH,
	REQUEST_END,
};

enum step_result request_step_route(struct machine *m);
enum step_result request_step_look_up(struct machine *m);
enum step_result request_step_open(struct machine *m);
enum step_result request_step_search(struct machine *m);
enum step_result request_step_part(struct machine *m);
enum step_result request_step_claim(struct machine *m);
enum step_result request_step_deliver(struct machine *m);
enum step_result request_step_fetch(struct machine *m);
enum step_result request_step_await(struct machine *m);
enum step_result request_step_combine(struct machine *m);
enum step_result request_step_relay(struct machine *m);
enum step_result request_step_follow(struct machine *m);
enum step_result request_step_purge(struct machine *m);
enum step_result request_step_invalidate(struct machine *m);
enum step_result request_step_parts(struct machine *m);
enum step_result request_step_switch(struct machine *m);
enum step_result request_step_tunnel(struct machine *m);

struct request *request_of(struct machine *m);
/* A request without a head yet, asleep. NULL: no memory. */
struct request *request_new(struct worker *w, struct exchange *x) NODISCARD;
#define REQUEST_ALLOW_LINE "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n"
/* The id by which the origin and the log know the request: most hits with no log need none. It stays what it is. */
void request_make_id(struct request *r);
/* What rules look at. */
struct conf_request request_for_rules(const struct request *r);
static inline enum step_result request_goto(struct request *r, enum request_step step)
{
	return machine_goto(&r->m, step);
}
/* An error that Brim itself makes: status, Proxy-Status error type (or NULL), a line for people. The next step sends it. */
enum step_result request_error(struct request *r, uint16_t status, const char *proxy_error,
			       const char *text);
/* Our own short answer (own fields may be empty). */
enum step_result request_answer(struct request *r, uint16_t status, struct view own, struct view body);
/* Sends r->answer's head, with what the site adds to every answer. 0; else the client is gone, or no memory. */
int request_send_head(struct request *r) NODISCARD;
/* The client is gone or the answer can't go on. */
enum step_result request_broken(struct request *r);
/* Wait until the client takes more; request_client_stuck then says whether to go on waiting. */
enum step_result request_wait_client(struct request *r);
/* Has it taken nothing for send_timeout? (Looked at once in that time: it may be nearly twice as long.) */
bool request_client_stuck(struct request *r);
/* Revalidates behind a stale answer, or fetches anew what is lost (of->lost_id). Best effort. */
void request_begin_background(struct request *r);
/* Serves r->object from its beginning, or answers 304. forward_status: what the origin said when it validated, or 0. */
enum step_result request_serve_object(struct request *r, enum stats_result result,
				      uint16_t forward_status);
/* The origin's answer as it is, not stored. */
enum step_result request_relay_answer(struct request *r);
/* Tags and groups of what is to be stored, in the arena: STORE_YES, or STORE_TAGS. stored: the fields as stored; validated: the
 * object that the answer validates; NULL: none. */
enum store_reason request_tags(struct request *r, const struct http_response *stored,
			       const struct cache_object *validated, struct cache_meta *m);
/* A cache group of the target's origin, as a scope. */
struct cache_scope request_group(struct request *r, struct view group);
/* 0: all are purged; -EINPROGRESS: wakes the machine; -EAGAIN: the keeper is away or has no room; -EOWNERDEAD: it went
 * away with it; -EIO: not written. After the last two it may be purged or not. */
int request_purge(struct request *r, struct purging *p) NODISCARD;
/* Must the answer with this status wait for the invalidation of what is stored? */
bool request_invalidates(const struct request *r, uint16_t status);
/* r->answer describes r->object: makes it a part, or several, or 416, where Range asks for it. */
void request_apply_range(struct request *r);
/* Can r's Range be answered from this object? */
bool request_range_in(const struct request *r, const struct cache_object *o);
/* Is a part wanted that may be asked for, and stored, as such: one range, no conditions, and nothing whole to validate? */
bool request_wants_part(const struct request *r);
/* The key under which parts lie. */
struct cache_key request_part_key(const struct cache_key *whole);
/* Lets go of r->part and its bytes. */
void request_forget_part(struct request *r);
/* Waits no more for another's claim; safe where it doesn't. */
void request_stop_waiting(struct request *r);
/* Lets go of r->object. */
void request_forget_object(struct request *r);
/* key: primary and base are set. 0: r->record is its object or, by a Vary rule, its variant for r, and the secondary key is set; else
 * as cache_find. */
int request_find(struct request *r, struct cache_key *key) NODISCARD;
/* May an object of another query serve this target (No-Vary-Search)? */
bool request_search_known(const struct request *r, const struct target *t);
/* The secondary key under a Vary rule. False: it has too many names, or one whose value is every request's own. */
bool request_vary_key(struct request *r, struct view rule, uint64_t *out_secondary);
/* The key under which «uncacheable» is remembered: requests with credentials apart from those without. */
struct cache_key request_pass_key(const struct request *r);
/* And the key under which «the fetch failed» is, for those who waited for it. */
struct cache_key request_failure_key(const struct request *r);
enum { REQUEST_FAILURE_MS = 1000 };

#endif
