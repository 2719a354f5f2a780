from .connections import Binding, IncomingConnection, bind, outgoing_connection

__all__ = [
    "Binding",
    "IncomingConnection",
    "bind",
    "outgoing_connection",
]
