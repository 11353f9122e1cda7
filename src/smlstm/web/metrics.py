"""Numbers on a server, as Prometheus reads them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from smlstm.search.location import LibraryGone

if TYPE_CHECKING:
    from smlstm.web.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts what is asked and how long it takes; what waits and what the library holds is read on demand."""

    def __init__(self, service: "Service") -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "smlstm_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "smlstm_http_request_seconds", "Time to answer.", ("route",), registry=self.registry, buckets=_SECONDS
        )
        ProcessCollector(registry=self.registry)
        self.registry.register(_State(service))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)


class _State(Collector):
    """The server as it is at the moment."""

    def __init__(self, service: "Service") -> None:
        self.service = service

    def describe(self) -> list[GaugeMetricFamily]:
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        service = self.service
        indexing = service.indexing.state()
        for name, about, value in (
            ("smlstm_work_running", "Questions that are worked on.", service.work.running),
            ("smlstm_work_waiting", "Questions that wait.", service.work.waiting),
            (
                "smlstm_work_refused",
                "Questions refused because too many waited, since the start.",
                service.work.refused,
            ),
            ("smlstm_indexing", "1 while photos are taken in.", int(indexing.running)),
            ("smlstm_indexing_done", "Files that the indexing at work is through with.", indexing.done),
            ("smlstm_indexing_total", "Files that the indexing at work has to see to.", indexing.total),
            ("smlstm_photos", "Photos that can be found.", self._photos()),
        ):
            yield GaugeMetricFamily(name, about, value)

    def _photos(self) -> int:
        try:
            return self.service.served.photo_count()
        except LibraryGone:
            return 0
