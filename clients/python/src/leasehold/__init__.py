"""A client of Leasehold: locks, claims and pool slots that are renewed in the background and lost on time.

    import leasehold

    client = leasehold.Client()                       # LEASEHOLD_URL, else http://localhost:8080
    with client.lock("backup", timeout=600) as lease:
        lease.check()                                 # raises LeaseLost; call it before each effect
        use(lease.token)                              # the fencing token, for the resource to compare

No client can protect a resource from a holder that was paused without noticing; only the fencing token, checked by the resource, can.
"""

from ._acquire import Progress
from ._aio import AsyncAcquirable, AsyncClient, AsyncLease, AsyncPool
from ._client import Acquirable, Cancel, Client, Lease, Pool
from ._errors import (
    Cancelled,
    Closed,
    Conflict,
    DifferentServices,
    Forbidden,
    LeaseholdError,
    LeaseLost,
    NotAcquired,
    NotFound,
    ProtocolError,
    ServiceUnavailable,
    Timeout,
    TlsError,
    Unauthenticated,
    WrongHost,
)

__version__ = "0.1.0"

__all__ = [
    "Acquirable",
    "AsyncAcquirable",
    "AsyncClient",
    "AsyncLease",
    "AsyncPool",
    "Cancel",
    "Cancelled",
    "Client",
    "Closed",
    "Conflict",
    "DifferentServices",
    "Forbidden",
    "Lease",
    "LeaseLost",
    "LeaseholdError",
    "NotAcquired",
    "NotFound",
    "Pool",
    "Progress",
    "ProtocolError",
    "ServiceUnavailable",
    "Timeout",
    "TlsError",
    "Unauthenticated",
    "WrongHost",
]
