"""Decide which checkpoint a state goes to. Pure functions: they know neither models nor what is loaded."""

from laya._routing.rules import CatalogLike, RouteDecision, route

__all__ = ["CatalogLike", "RouteDecision", "route"]
