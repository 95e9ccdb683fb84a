"""Routes: an order, and the state of its receipt."""

from django.urls import path
from shop import views

urlpatterns = [
    path("orders/<str:customer>", views.order),
    path("receipts/<str:id>", views.receipt),
]
