# Types of what grpcio-tools generates without any.
# ruff: noqa: N802

from collections.abc import AsyncIterator

import grpc.aio

from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api

class RegistrationStub:
    Register: grpc.aio.UnaryUnaryMultiCallable[api.RegisterRequest, api.Empty]
    def __init__(self, channel: grpc.aio.Channel) -> None: ...

class RegistrationServicer:
    async def Register(
        self,
        request: api.RegisterRequest,
        context: grpc.aio.ServicerContext[api.RegisterRequest, api.Empty],
    ) -> api.Empty: ...

def add_RegistrationServicer_to_server(
    servicer: RegistrationServicer, server: grpc.aio.Server
) -> None: ...

class DevicePluginStub:
    GetDevicePluginOptions: grpc.aio.UnaryUnaryMultiCallable[api.Empty, api.DevicePluginOptions]
    ListAndWatch: grpc.aio.UnaryStreamMultiCallable[api.Empty, api.ListAndWatchResponse]
    GetPreferredAllocation: grpc.aio.UnaryUnaryMultiCallable[
        api.PreferredAllocationRequest, api.PreferredAllocationResponse
    ]
    Allocate: grpc.aio.UnaryUnaryMultiCallable[api.AllocateRequest, api.AllocateResponse]
    def __init__(self, channel: grpc.aio.Channel) -> None: ...

class DevicePluginServicer:
    async def GetDevicePluginOptions(
        self,
        request: api.Empty,
        context: grpc.aio.ServicerContext[api.Empty, api.DevicePluginOptions],
    ) -> api.DevicePluginOptions: ...
    def ListAndWatch(
        self,
        request: api.Empty,
        context: grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse],
    ) -> AsyncIterator[api.ListAndWatchResponse]: ...
    async def GetPreferredAllocation(
        self,
        request: api.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[
            api.PreferredAllocationRequest, api.PreferredAllocationResponse
        ],
    ) -> api.PreferredAllocationResponse: ...
    async def Allocate(
        self,
        request: api.AllocateRequest,
        context: grpc.aio.ServicerContext[api.AllocateRequest, api.AllocateResponse],
    ) -> api.AllocateResponse: ...

def add_DevicePluginServicer_to_server(
    servicer: DevicePluginServicer, server: grpc.aio.Server
) -> None: ...
