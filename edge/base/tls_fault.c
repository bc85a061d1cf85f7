/*
 * Why a handshake failed, in one word for metrics and logs. OpenSSL knows some hundred reasons; those that an operator can
 * do something about have a name here, alerts of the peer too.
 */
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>

#include "edge/base/tls_parts.h"

struct reason {
	int code;
	const char *name;
};

static const struct reason reasons[] = {
	{ SSL_R_NO_SHARED_CIPHER, "no_shared_cipher" },
	{ SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, "no_shared_cipher" },
	{ SSL_R_NO_SUITABLE_KEY_SHARE, "no_shared_group" },
	{ SSL_R_NO_SUITABLE_GROUPS, "no_shared_group" },
	{ SSL_R_UNSUPPORTED_PROTOCOL, "version" },
	{ SSL_R_VERSION_TOO_LOW, "version" },
	{ SSL_R_WRONG_SSL_VERSION, "version" },
	{ SSL_R_WRONG_VERSION_NUMBER, "not_tls" },
	{ SSL_R_HTTP_REQUEST, "not_tls" },
	{ SSL_R_HTTPS_PROXY_REQUEST, "not_tls" },
	{ SSL_R_NO_APPLICATION_PROTOCOL, "no_application_protocol" },
	{ SSL_R_CALLBACK_FAILED, "unrecognized_name" },
	{ SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "no_client_certificate" },
	{ SSL_R_NO_CERTIFICATES_RETURNED, "no_client_certificate" },
	{ SSL_R_UNEXPECTED_EOF_WHILE_READING, "closed" },
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, "alert_unknown_ca" },
	{ SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "alert_protocol_version" },
	{ SSL_R_TLSV1_ALERT_INTERNAL_ERROR, "alert_internal_error" },
	{ SSL_R_TLSV1_ALERT_USER_CANCELLED, "alert_user_canceled" },
	{ SSL_R_TLSV1_ALERT_ACCESS_DENIED, "alert_access_denied" },
	{ SSL_R_TLSV1_ALERT_DECODE_ERROR, "alert_decode_error" },
	{ SSL_R_TLSV1_ALERT_DECRYPT_ERROR, "alert_decrypt_error" },
	{ SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "alert_no_application_protocol" },
	{ SSL_R_TLSV1_UNRECOGNIZED_NAME, "alert_unrecognized_name" },
	{ SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, "alert_certificate_required" },
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, "alert_handshake_failure" },
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "alert_bad_certificate" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "alert_certificate_expired" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "alert_certificate_unknown" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, "alert_certificate_revoked" },
	{ SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, "alert_unsupported_certificate" },
	{ SSL_R_SSLV3_ALERT_UNEXPECTED_MESSAGE, "alert_unexpected_message" },
	{ SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, "alert_illegal_parameter" },
};

static const struct reason verdicts[] = {
	{ X509_V_ERR_CERT_HAS_EXPIRED, "certificate_expired" },
	{ X509_V_ERR_CERT_NOT_YET_VALID, "certificate_not_yet_valid" },
	{ X509_V_ERR_HOSTNAME_MISMATCH, "certificate_name" },
	{ X509_V_ERR_IP_ADDRESS_MISMATCH, "certificate_name" },
	{ X509_V_ERR_CERT_REVOKED, "certificate_revoked" },
	{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "unknown_ca" },
	{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "unknown_ca" },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "unknown_ca" },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "unknown_ca" },
	{ X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "unknown_ca" },
};

static const char *name_in(const struct reason *table, size_t count, int code, const char *other)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].code == code)
			return table[i].name;
	return other;
}

const char *tls_fault_name(const SSL *ssl)
{
	unsigned long error = ERR_peek_last_error();
	int reason = ERR_GET_REASON(error);

	if (error == 0 || ERR_GET_LIB(error) == ERR_LIB_SYS)
		return "closed";
	if (ERR_GET_LIB(error) != ERR_LIB_SSL)
		return "protocol";
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return name_in(verdicts, ARRAY_LEN(verdicts), (int)SSL_get_verify_result(ssl),
			       "certificate");
	return name_in(reasons, ARRAY_LEN(reasons), reason,
		       reason >= SSL_AD_REASON_OFFSET ? "alert_other" : "protocol");
}
