"""Signatures and certificates as OpenSSL writes them, and bytes that are none."""

from __future__ import annotations

import base64

import pytest
from tests.signing import enrolled, serial, signed

from gpustack.detect.parse import signing

BY_ISSUER = base64.b64decode(
    "MIIBmQYJKoZIhvcNAQcCoIIBijCCAYYCAQExDTALBglghkgBZQMEAgMwCwYJKoZIhvcNAQcBMYIBYzCCAV8CAQEwOjAiMSAwHgYD"
    "VQQDDBdES01TIG1vZHVsZSBzaWduaW5nIGtleQIUD53Gm/9dhCUzinXcz+YsJKW3yagwCwYJYIZIAWUDBAIDMA0GCSqGSIb3DQEB"
    "AQUABIIBABeyPj38SxLYXYqhC5ojjiaLcN8Y9x5HorbMiNac80iwBCZwXTpFc7UBHum9lpvqvrviM8b/3CfjCKUUfw2fMXM+BQKu"
    "yPITSMk7TdP6OHJHdMCC/3irePvxhRqu23Ejr9nY47k1IfvRqSlscRq9buNB8Zh9sU5HH6voGawI4KMyCwUqRj4KKqNyQQOghn3E"
    "gri+xGEKPJ3cgAPnZdBysuJ6ZWRJBY/WsQ0OUKCfmXr29cdMIUQYsd58aH0LyA/SqQFmH/mrkUf+RylzRaTc0fJp7jGrVjhncw9E"
    "DI1i0RLs6r6t1QRgbh7qyaCQ2u9fOM2CscRHTRUa/eUkjB0TO1o="
)
BY_KEY_ID = base64.b64decode(
    "MIIBcwYJKoZIhvcNAQcCoIIBZDCCAWACAQMxDTALBglghkgBZQMEAgEwCwYJKoZIhvcNAQcBMYIBPTCCATkCAQOAFF9kqJbOObar"
    "WpzFgF/wijm+na4WMAsGCWCGSAFlAwQCATANBgkqhkiG9w0BAQEFAASCAQAgn/r7jc7b7GQTVuVSEJeZ3p+Yd8JD3WMv5w7FDiCl"
    "gt8odehzZX51HnW+bz1vmOeu6tkP7R+A9uaWgupbDDP3oj4NGkq9Ah3f/d4mMczbJZtccl5bVE/s7cQwLoiKWOJ8IHFZ3xAsd9ww"
    "6n4iHQnytz2CQ/J+acnqaQ9eyoHpw+qxfSVumxrOfGWOtMPo+lIE0EyZ/pq+SOczYreehvmQHJDCDDmBO0WEvU2OHx8R2HviBCAe"
    "ZZMqBaXzLcpcdBiZJCjtKAGQsRzRUfOrrAPDH1uedL6k7K2T2+kT4KfV/yJDOdRQiDYpmxVb05Hgxhv+YxKnG5C1gP5h+yzbfsO2"
)
CERTIFICATE = base64.b64decode(
    "MIIDJTCCAg2gAwIBAgIUD53Gm/9dhCUzinXcz+YsJKW3yagwDQYJKoZIhvcNAQELBQAwIjEgMB4GA1UEAwwXREtNUyBtb2R1bGUg"
    "c2lnbmluZyBrZXkwHhcNMjYxMTIzMDA1NDU5WhcNMzYxMTIwMDA1NDU5WjAiMSAwHgYDVQQDDBdES01TIG1vZHVsZSBzaWduaW5n"
    "IGtleTCCASIwDQYJKoZIhvcNAQEBBQADggEPADCCAQoCggEBAKC2ZIPFJD2s4M11+oh3TJstcRkqQ+7LNclB+g2jFEwq/pyjvjAm"
    "BEoBQ87gORwc3EZJOHEKHxK9vPJd7gRuuHRkKh0BWwbH9ASKTaCp/jmbzdThteG/0SykAp9NRJ0wYECVz9Xy1h5EvqOguM8iH+y4"
    "Wx+Adxh3hPXy3L6IEIx97dfVmYUmCBYB/svnlh0z4WX/HPz9dcO9whmBoMgSX10Wg29DHv2khWe23vIa4toPYi60Dch2o/H5jG8Q"
    "aX6nbtwKUxIjMsp8Pqg+dYIJC+JvlDN0Qou0LtjtDYcUB/Yoy52zjHwR75xIZM4s5jhF8IiV7Wza9/OHUAFIbh2hSQUCAwEAAaNT"
    "MFEwHQYDVR0OBBYEFF9kqJbOObarWpzFgF/wijm+na4WMB8GA1UdIwQYMBaAFF9kqJbOObarWpzFgF/wijm+na4WMA8GA1UdEwEB"
    "/wQFMAMBAf8wDQYJKoZIhvcNAQELBQADggEBAJ9AI64elJ4rDcd8CfM0WbF8lLYu5b2SCF8X0QP7d5lF+ttg3sSOdL1tW+liyhIt"
    "LPVKUG1OyZmUlPqKA+PwI82H8acWbVToc++okSnF4cXjKkRYcBsXy890IuddJ4LAv71uvZI85+ggdlScRZmNG0+uISdgYWuDhvHQ"
    "qJ/IEpNO/sbldzJbxk3m2naWTxS3zLyWPiP8ypZuXlng2Pzr80PYKL/P8KGeCx+texQY1cHq6XCoh29FESWbJZpAq8qEElhPar85"
    "Texn4ci5fhkIIrAn9rfwpZMeIChecobdQqVApUJtWZp/UeLtN8aXeWKVcwI3NdWG4wT11B53tAuiKCI="
)
"""Made by openssl cms -sign -binary -nocerts -noattr, with and without -keyid, and openssl req -x509."""

SERIAL, KEY_ID = "0F9DC69BFF5D8425338A75DCCFE62C24A5B7C9A8", "5F64A896CE39B6AB5A9CC5805FF08A39BE9DAE16"


def test_a_signature_names_the_certificate_by_its_number_or_its_key() -> None:
    assert signing.signer(BY_ISSUER) == (SERIAL, "DKMS module signing key")
    assert signing.signer(BY_KEY_ID) == (KEY_ID, "")
    assert signing.certificate(CERTIFICATE) == (SERIAL, KEY_ID)


def test_a_module_tells_how_long_its_signature_is() -> None:
    module = signed("somebody")
    length = signing.signature_length(module[-signing.INFO - len(signing.MAGIC) :])
    data = module[: -signing.INFO - len(signing.MAGIC)][-length:]
    assert signing.signer(data) == (serial("somebody").hex().upper(), "somebody")
    assert signing.signature_length(signed("")[-64:]) == 0


def test_every_certificate_of_a_variable_is_found() -> None:
    found = [signing.certificate(one)[0] for one in signing.certificates(enrolled("a", "b"))]
    assert found == [serial("a").hex().upper(), serial("b").hex().upper()]


@pytest.mark.parametrize(
    "data", [b"", b"0", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\xa0\x01\x30", BY_ISSUER[:90], b"x" * 500]
)
def test_bytes_that_are_none_give_nothing(data: bytes) -> None:
    assert signing.signer(data) == ("", "")
    assert signing.certificate(data) == ("", "")
    assert [signing.certificate(one) for one in signing.certificates(data)] == []


def test_a_signature_longer_than_any_is_none() -> None:
    tail = bytes(8) + (1 << 30).to_bytes(4, "big") + signing.MAGIC
    assert signing.signature_length(tail) == 0
