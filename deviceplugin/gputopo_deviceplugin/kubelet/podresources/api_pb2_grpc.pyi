# Types of what grpcio-tools generates without any.
# ruff: noqa: N802

import grpc.aio

from gputopo_deviceplugin.kubelet.podresources import api_pb2 as api

class PodResourcesListerStub:
    List: grpc.aio.UnaryUnaryMultiCallable[
        api.ListPodResourcesRequest, api.ListPodResourcesResponse
    ]
    def __init__(self, channel: grpc.aio.Channel) -> None: ...

class PodResourcesListerServicer:
    async def List(
        self,
        request: api.ListPodResourcesRequest,
        context: grpc.aio.ServicerContext[
            api.ListPodResourcesRequest, api.ListPodResourcesResponse
        ],
    ) -> api.ListPodResourcesResponse: ...

def add_PodResourcesListerServicer_to_server(
    servicer: PodResourcesListerServicer, server: grpc.aio.Server
) -> None: ...
